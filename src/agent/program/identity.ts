import { join } from 'node:path';
import { agentEnv } from '../protocol.ts';
import { readJsonIfThere } from './files.ts';
import { Mask } from './mask.ts';
import { Exit, exitCodes, processEnv, type Settings } from './settings.ts';

/** What bootstrap left for this container, read once at its start. */
export interface Identity {
  readonly nonce: string;
  /** For everything the agent starts. */
  readonly childEnv: Readonly<Record<string, string>>;
  /** Hides the instance's secrets and our own in whatever is captured. */
  readonly mask: Mask;
  /** The container's environment and the runtime env: where to listen. */
  readonly ownEnv: Readonly<Record<string, string | undefined>>;
}

export function loadIdentity(settings: Settings): Identity {
  const runtimeEnv = requireJson(join(settings.optDir, 'runtime.json')) as Record<string, string>;
  const auth = requireJson(join(settings.runDir, 'auth.json')) as Auth;
  if (typeof auth.nonce !== 'string' || auth.nonce === '') throw new Exit(exitCodes.configuration, 'auth.json has no nonce');
  const all = { ...processEnv, ...runtimeEnv, ...auth.env };
  const secrets = auth.secretNames.map((name) => all[name]).filter((value) => value !== undefined);
  return {
    nonce: auth.nonce,
    childEnv: { ...withoutOurs(all), HOME: join(settings.runDir, 'home') },
    mask: new Mask([...secrets, auth.nonce]),
    // The container's own come first: the local cluster's path mode gives each Pod another address.
    ownEnv: { ...runtimeEnv, ...processEnv },
  };
}

interface Auth {
  readonly env: Record<string, string>;
  readonly secretNames: string[];
  readonly nonce: string;
}

function requireJson(path: string): unknown {
  const value = readJsonIfThere(path);
  if (value === undefined) throw new Exit(exitCodes.configuration, `${path} is missing: this container was not bootstrapped`);
  return value;
}

const ours: ReadonlySet<string> = new Set([agentEnv.host, agentEnv.port, agentEnv.nonce]);

function withoutOurs(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined && !ours.has(entry[0])),
  );
}
