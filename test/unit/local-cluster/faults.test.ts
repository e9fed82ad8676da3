import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Faults, loadFaults } from '../../../src/local-cluster/faults.ts';

let folder: string;
let file: string;
let faults: Faults | undefined;
const messages: string[] = [];

const write = (rules: unknown) => writeFileSync(file, JSON.stringify({ rules }));
const load = (rules: unknown): Faults => {
  write(rules);
  faults = loadFaults(file, (message) => messages.push(message));
  return faults;
};
const create = { verb: 'create', resource: 'pods', subresource: '', name: 'p' };

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'windlass-faults-'));
  file = join(folder, 'faults.json');
});
afterEach(() => {
  faults?.close();
  rmSync(folder, { recursive: true });
});

describe('fault rules', () => {
  it('fire on the nth match only, then on as many as `times` says', () => {
    const rules = load([
      { verb: 'create', resource: 'pods', nth: 2, fault: 'drop_before' },
      { verb: 'create', resource: 'pods', nth: 3, times: 2, fault: 'commit_then_drop' },
    ]);
    const fired = [1, 2, 3, 4, 5].map(() => rules.match(create));
    expect(fired).toEqual([[], ['drop_before'], ['commit_then_drop'], ['commit_then_drop'], []]);
  });

  it('tell the object from its subresources and open streams by either verb', () => {
    const rules = load([
      { verb: 'create', resource: 'pods', fault: 'drop_before' },
      { verb: 'create', resource: 'pods', subresource: 'exec', fault: 'exec_no_status' },
    ]);
    expect(rules.match({ ...create, verb: 'get', subresource: 'exec' })).toEqual(['exec_no_status']);
    expect(rules.match({ ...create, resource: 'configmaps' })).toEqual([]);
    expect(rules.match(create)).toEqual(['drop_before']);
  });

  it('fire at the same requests in every run for the same seed', () => {
    const pattern = (seed: number) => {
      const rules = load([{ rate: 0.5, seed, fault: { delayMs: 1 } }]);
      const fired = Array.from({ length: 40 }, () => rules.match(create).length).join('');
      rules.close();
      return fired;
    };
    expect(pattern(7)).toBe(pattern(7));
    expect(pattern(7)).not.toBe(pattern(8));
    expect(pattern(7)).toMatch(/0.*1|1.*0/);
  });

  it('are read again before the next request, and a rule that stays keeps its count', () => {
    const kept = { verb: 'create', resource: 'pods', nth: 2, fault: 'drop_before' };
    const rules = load([kept]);
    expect(rules.match(create)).toEqual([]);
    write([{ verb: 'list', resource: 'pods', fault: { hide_from_list_ms: 5 } }, kept]);
    expect(rules.match(create)).toEqual(['drop_before']);
    expect(rules.match({ ...create, verb: 'list' })).toEqual([{ hide_from_list_ms: 5 }]);
  });

  it('stay as they were after a bad edit, which is reported', () => {
    const rules = load([{ fault: 'drop_before' }]);
    writeFileSync(file, '{"rules": [{"fault": "no_such_fault"}]}');
    expect(rules.match(create)).toEqual(['drop_before']);
    expect(messages.at(-1)).toContain('the old rules stay');
  });

  it('are refused at start when the file is wrong', () => {
    expect(() => load([{ fault: { delayMs: -1 } }])).toThrow();
    expect(() => loadFaults(join(folder, 'missing'), () => undefined)).toThrow();
  });

  it('set the clock while they are there', () => {
    const rules = load([{ fault: { clock_skew_ms: -90_000 } }]);
    expect(rules.skewMs()).toBe(-90_000);
  });
});
