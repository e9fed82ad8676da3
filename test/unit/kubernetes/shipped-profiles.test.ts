import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { type ProfileConfig, profileSchema } from '../../../src/config/schema.ts';
import { composeClaim, composePod } from '../../../src/kubernetes/compose.ts';
import { parseTemplate } from '../../../src/kubernetes/template.ts';
import { root } from '../../support/root.ts';
import { composeInput } from './compose-input.ts';

const read = (file: string) => readFileSync(join(root, 'examples', file), 'utf8');
const profiles: Record<string, ProfileConfig> = parse(read('windlass.yaml')).profiles;

/** What a launch of the shipped profile composes, from the files as they are shipped. */
function inputOf(name: string) {
  const profile = profileSchema.parse({ ...profiles[name], owners: ['*'] });
  const { template, issues } = parseTemplate(read(profile.podTemplateFile ?? ''), name, profile);
  if (!template) throw new Error(`${name}: ${JSON.stringify(issues)}`);
  const input = composeInput({ profile, template });
  const workspaceClaim = profile.workspace.mode === 'empty_dir' ? undefined : input.workspaceClaim;
  return { ...input, identity: { ...input.identity, profile: name }, workspaceClaim };
}

describe('the shipped profiles', () => {
  it.each(Object.keys(profiles))('%s: its Pod is exactly this', (name) => {
    expect(composePod(inputOf(name))).toMatchSnapshot();
  });

  it.each(['node', 'minimal', 'python'])('%s: its claim is exactly this', (name) => {
    expect(composeClaim(inputOf(name))).toMatchSnapshot();
  });
});
