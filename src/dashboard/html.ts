/** Text that is HTML already; everything else is escaped when it is put into a page. */
export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
/** Bidirectional overrides could make one id look like another; control characters have no business in a page. */
const hostile = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

export const escapeHtml = (text: string): string =>
  text.replace(hostile, '\ufffd').replace(/[&<>"']/g, (character) => entities[character]!);

type Part = Html | string | number | null | undefined | readonly Part[];

/** ``html`<p>${anything}</p>` ``: values are escaped unless they are Html themselves; lists are joined. */
export function html(strings: TemplateStringsArray, ...parts: Part[]): Html {
  return new Html(strings.reduce((all, string, index) => all + render(parts[index - 1]) + string));
}

function render(part: Part): string {
  if (part === null || part === undefined) return '';
  if (part instanceof Html) return part.text;
  if (Array.isArray(part)) return part.map(render).join('');
  return escapeHtml(String(part));
}
