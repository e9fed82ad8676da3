import { colourAllowed } from '../config/environment.ts';
import { errorBody, type WindlassError } from '../errors.ts';

export const formats = ['json', 'yaml', 'wide', 'name'] as const;
export type Format = (typeof formats)[number] | 'text';

/** Every document of ours says which contract it follows. */
export const schemaTag = 'windlass/v1';
type Document = Readonly<Record<string, unknown>>;
export const tagged = (document: Document): Document => ({ schema: schemaTag, ...document });

/** What a verb has to show, in every form it can be asked for. */
export interface Result {
  readonly document: Document;
  /** For a person at a terminal; the document itself when there is no better form. */
  readonly text?: (wide: boolean) => string;
  /** For `-o name`: one per line. */
  readonly names?: readonly string[];
}

export interface Output {
  readonly format: Format;
  /** True when the format was chosen with -o or --json: only then is a failure a document too. */
  readonly asked: boolean;
  readonly quiet: boolean;
  /** A sentence for the person, on stderr; nothing with -q. */
  say(text: string): void;
  /** The result, on stdout. */
  show(result: Result): Promise<void>;
  /** One object of a stream, on stdout, as a line of JSON. */
  line(document: Document): void;
}

/**
 * Without `-o`, a terminal gets the form for people and a pipe gets JSON: what a program reads never depends on how
 * tables look, and a person need not type anything.
 */
export function createOutput(options: { readonly output?: string; readonly json?: boolean; readonly quiet?: boolean }): Output {
  const asked = options.json ? 'json' : options.output;
  const format: Format = (asked as Format | undefined) ?? (process.stdout.isTTY ? 'text' : 'json');
  return {
    format,
    asked: asked !== undefined,
    quiet: options.quiet === true,
    say: (text) => void (options.quiet || process.stderr.write(`${text}\n`)),
    show: async (result) => void process.stdout.write(await render(result, format)),
    line: (document) => void process.stdout.write(`${JSON.stringify(tagged(document))}\n`),
  };
}

async function render(result: Result, format: Format): Promise<string> {
  if (format === 'name' && result.names) return result.names.map((name) => `${name}\n`).join('');
  if ((format === 'text' || format === 'wide') && result.text) return `${result.text(format === 'wide')}\n`;
  if (format === 'yaml') return (await import('yaml')).stringify(tagged(result.document));
  return `${JSON.stringify(tagged(result.document), null, 2)}\n`;
}

/** The end of a log, at most: the rest is what `windlass explain` is for. */
const logLines = 10;

/**
 * A failure: a document on stdout when one was asked for, else on stderr a sentence with issues, the end of the log that is
 * its evidence, and, unless quiet, the hint.
 */
export async function showError(
  error: WindlassError,
  { format, asked, quiet }: Pick<Output, 'format' | 'asked' | 'quiet'>,
  extra: Document = {},
): Promise<void> {
  if (asked && (format === 'json' || format === 'yaml')) {
    process.stdout.write(await render({ document: { error: errorBody(error), ...extra } }, format));
    return;
  }
  const said = withoutIssues(error);
  const issues = error.issues.filter((issue) => !said.includes(issue.message));
  const lines = issues.map((issue) => `  ${clean(issue.path) || '(root)'}: ${clean(issue.message)}\n`).join('');
  const log = logOf(error.evidence)
    .slice(-logLines)
    .map((line) => `  | ${line}\n`)
    .join('');
  const hint = error.hint && !quiet ? `Hint: ${clean(error.hint)}\n` : '';
  process.stderr.write(`${paint('red', 'windlass:')} ${clean(said)}\n${lines}${log}${hint}`);
}

/** The lines of the container's log in the evidence of a failure. */
export function logOf(evidence: Readonly<Record<string, unknown>> = {}): string[] {
  return typeof evidence.log === 'string' ? evidence.log.trimEnd().split('\n').map(clean) : [];
}

/** `refuse` lists the issues in the message too, which would show them twice. */
function withoutIssues(error: WindlassError): string {
  const first = error.issues[0];
  const at = first ? error.message.indexOf(`: ${first.path || '(root)'}: ${first.message.slice(0, 40)}`) : -1;
  return at < 0 ? error.message : `${error.message.slice(0, at)}.`;
}

/** Text from clusters and callers is hostile: no escape sequence of it may reach a terminal. */
export const clean = (text: string): string => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ');

const colours = { red: 31, green: 32, yellow: 33, dim: 90 } as const;

export function paint(colour: keyof typeof colours, text: string, stream: NodeJS.WriteStream = process.stderr): string {
  return stream.isTTY && colourAllowed() ? `\x1b[${colours[colour]}m${text}\x1b[0m` : text;
}

/** Columns as wide as their widest cell; the last one is not padded. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, ...rows.map((row) => row.map(clean))];
  const widths = head.map((_, column) => Math.max(...lines.map((line) => [...(line[column] ?? '')].length)));
  const pad = (cell: string, column: number) =>
    column === head.length - 1 ? cell : cell + ' '.repeat(widths[column]! - [...cell].length);
  return lines.map((line) => line.map(pad).join('  ').trimEnd()).join('\n');
}
