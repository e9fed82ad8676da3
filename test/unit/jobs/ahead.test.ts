import { describe, expect, it } from 'vitest';
import { ahead } from '../../../src/jobs/sweeps/ahead.ts';

describe('pages asked for ahead', () => {
  it('are asked for one before they are needed, in order, and no further', async () => {
    const seen: string[] = [];
    async function* pages() {
      for (const page of ['a', 'b', 'c']) {
        seen.push(`asked ${page}`);
        yield page;
      }
    }
    for await (const page of ahead(pages())) seen.push(`judged ${page}`);
    expect(seen).toEqual(['asked a', 'asked b', 'judged a', 'asked c', 'judged b', 'judged c']);
  });

  it('that cannot be read fail the pass at their turn', async () => {
    const judged: string[] = [];
    async function* pages() {
      yield 'a';
      throw new Error('not readable');
    }
    const pass = async () => {
      for await (const page of ahead(pages())) judged.push(page);
    };
    await expect(pass()).rejects.toThrow('not readable');
    expect(judged).toEqual(['a']);
  });

  it('are given up when the judging fails, whose error it is that counts', async () => {
    let closed = false;
    async function* pages() {
      try {
        yield 'a';
        throw new Error('the page behind it');
      } finally {
        closed = true;
      }
    }
    const pass = async () => {
      for await (const page of ahead(pages())) throw new Error(`judging ${page}`);
    };
    await expect(pass()).rejects.toThrow('judging a');
    expect(closed).toBe(true);
  });
});
