import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { type AgentProgram, bootLine } from '../agent/boot.ts';
import { agentConfigMap } from '../agent/delivery.ts';
import { podPaths } from '../agent/protocol.ts';
import type { Config, ProfileConfig } from '../config/schema.ts';
import { type Issue, WindlassError } from '../errors.ts';
import type { ComposeInput } from '../kubernetes/compose.ts';
import type { StageContext } from './stage.ts';

/** The agent of delivery upload, as it lies beside this worker. */
export interface AgentFile {
  readonly path: string;
  /** Hex. */
  readonly sha256: string;
  /** Bytes. */
  readonly size: number;
}

/** Whether the agent comes from the shared ConfigMap. */
export const fromConfigMap = ({ delivery, protocol }: ProfileConfig['agent']): boolean =>
  delivery === 'config_map' || (delivery === 'init_image' && protocol === 'windlass');

/** What the Pod has to know of its agent; undefined for delivery none. */
export async function composedAgent(context: Pick<StageContext, 'config' | 'profile' | 'dir'>): Promise<ComposeInput['agent']> {
  const { agent } = context.profile;
  if (agent.delivery === 'none') return undefined;
  const map = fromConfigMap(agent) ? agentConfigMap(context.config.installation) : undefined;
  const program = map === undefined ? await programAt(context) : { protocol: agent.protocol, sha256: map.sha256 };
  return { configMapName: map?.name, program, bootLine: bootLine(program) };
}

async function programAt({ profile, dir }: Pick<StageContext, 'profile' | 'dir'>): Promise<AgentProgram> {
  const { protocol, delivery, path } = profile.agent;
  if (delivery === 'image' && path !== undefined) return { protocol, path };
  if (delivery === 'init_image') return { protocol, path: `${podPaths.opt}/agent` };
  const file = await agentFile(dir, profile);
  const extension = file.path.endsWith('.mjs') ? '.mjs' : '';
  return { protocol, path: `${podPaths.opt}/agent${extension}`, sha256: file.sha256, uploaded: true };
}

const hashed = new Map<string, Promise<string>>();

/** The profile's binary for its platform; hashed once for each state of the file. Throws `config_invalid` when it cannot be read. */
export async function agentFile(dir: string, profile: ProfileConfig): Promise<AgentFile> {
  const named = profile.agent.binaries?.[profile.platform];
  if (named === undefined) throw new WindlassError('config_invalid', `agent.binaries names no file for ${profile.platform}.`);
  const path = resolve(dir, named);
  try {
    const { size, mtimeMs, ino } = await stat(path);
    const key = JSON.stringify([path, ino, size, mtimeMs]);
    const digest = hashed.get(key) ?? digestOf(path);
    hashed.set(key, digest);
    digest.catch(() => hashed.delete(key));
    const sha256 = await digest;
    if (size === 0) throw new WindlassError('config_invalid', `The agent file ${named} is empty.`);
    return { path, sha256, size };
  } catch (error) {
    if (error instanceof WindlassError) throw error;
    const reason = (error as NodeJS.ErrnoException).code ?? String(error);
    throw new WindlassError('config_invalid', `The agent file ${named} cannot be read (${reason}).`, { cause: error });
  }
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest('hex');
}

/** A worker that finds out in the middle of a launch that it has no agent to bring is of no use. */
export async function agentFileIssues(config: Config, dir: string): Promise<Issue[]> {
  const issues: Issue[] = [];
  for (const [name, profile] of Object.entries(config.profiles)) {
    if (profile.agent.delivery !== 'upload') continue;
    try {
      await agentFile(dir, profile);
    } catch (error) {
      issues.push({ path: `profiles.${name}.agent.binaries.${profile.platform}`, message: (error as Error).message });
    }
  }
  return issues;
}
