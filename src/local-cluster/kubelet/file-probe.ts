import type { ContainerSetup, PodIsolation } from './isolation.ts';

interface FileTest {
  readonly flag: 'e' | 'f' | 'd' | 's';
  readonly path: string;
}

/** `test -f FILE`, bare or in a shell, with a variable at its start at most; undefined for every other command. */
export function readFileTest(command: readonly string[], env: Readonly<Record<string, string>>): FileTest | undefined {
  const [program, ...args] = command;
  const words = program === 'sh' && args[0] === '-c' && args.length === 2 ? (args[1] as string).split(' ') : [program, ...args];
  const match = /^test -([efds]) ("?)(?:\$(\w+)|\$\{(\w+)\})?([\w./-]*)\2$/.exec(words.join(' '));
  if (match === null || words.length !== 3) return undefined;
  const [, flag, quote, name, bracedName, rest] = match;
  const variable = name ?? bracedName;
  // Outside a shell neither quotes nor variables mean anything.
  if (program !== 'sh' && (quote !== '' || variable !== undefined)) return undefined;
  const path = `${variable === undefined ? '' : (env[variable] ?? '')}${rest}`;
  return path.startsWith('/') && !path.includes('/..') ? { flag: flag as FileTest['flag'], path } : undefined;
}

/**
 * Answers a probe that only looks for a file in a volume without starting processes for it: hundreds of Pods that wait to be
 * prepared are probed each second. Undefined when it takes a real exec to know (other commands, other places, links).
 */
export async function askForFile(
  isolation: PodIsolation,
  setup: ContainerSetup,
  command: readonly string[],
): Promise<boolean | undefined> {
  const test = readFileTest(command, setup.env);
  const mount = test && setup.mounts.findLast(({ target }) => test.path.startsWith(`${target}/`));
  if (test === undefined || mount === undefined) return undefined;
  const found = await isolation.stat(mount.source + test.path.slice(mount.target.length));
  if (found === 'link') return undefined;
  if (found === 'nothing') return false;
  return { e: true, f: found.file, d: found.directory, s: found.size > 0 }[test.flag];
}
