import { randomBytes } from 'node:crypto';
import { type Command, Option } from 'commander';
import { sha256 } from '../names.ts';
import { usage, verb } from './context.ts';
import { collect, seconds } from './values.ts';

interface TokenOptions {
  readonly name: string;
  readonly role: 'viewer' | 'caller' | 'operator';
  readonly owner?: readonly string[];
  readonly expires?: string;
}

export function token(program: Command): void {
  const command = program
    .command('token')
    .description('access tokens of the dashboard and the HTTP API')
    .command('create')
    .description('make a token; it is shown once, the configuration only gets its hash')
    .option('--name <name>', 'who it is for', 'token')
    .addOption(new Option('--role <role>', 'what it may do').choices(['viewer', 'caller', 'operator']).default('viewer'))
    .option('--owner <owner>', 'whose instances (repeatable; default: everybody)', collect)
    .option('--expires <duration>', 'such as 30d; default: never');
  verb<TokenOptions>(command, async (context, options) => {
    const owners = options.owner ?? ['*'];
    if (options.role === 'operator' && !owners.includes('*'))
      throw usage('--owner', 'an operator reaches every owner: leave it out');
    const value = `wl_${randomBytes(32).toString('base64url')}`;
    const entry = {
      name: options.name,
      sha256: sha256(value),
      role: options.role,
      owners,
      ...(options.expires !== undefined && {
        expiresAt: new Date(Date.now() + seconds('--expires', options.expires) * 1000).toISOString(),
      }),
    };
    context.out.say('Put the entry into http.tokens of the configuration; the token itself is not stored anywhere.');
    await context.out.show({
      document: { token: value, entry },
      text: () => `${value}\n\nhttp:\n  tokens:\n    - ${JSON.stringify(entry)}`,
    });
  });
}
