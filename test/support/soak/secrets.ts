import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** The text and what it looks like in base64, at each of the three places where it may start in a longer text. */
export function formsOf(text: string): string[] {
  const encoded = [0, 1, 2].map((before) => {
    const whole = Buffer.from(`${'\0'.repeat(before)}${text}`).toString('base64');
    // The first and last characters also hold bits of the neighbours.
    return whole.slice(Math.ceil((before * 4) / 3), -4);
  });
  return [text, encodeURIComponent(text), Buffer.from(text).toString('hex'), ...encoded];
}

/** Remembers where the marker was seen; only places, so that any amount can be looked through. */
export function secretSearch(marker: string) {
  const forms = [...new Set(formsOf(marker))].map((form) => Buffer.from(form));
  const places = new Map<string, string>();
  return {
    look(place: string, content: Buffer | string): void {
      const bytes = Buffer.from(content);
      const at = forms.map((form) => bytes.indexOf(form)).find((index) => index >= 0);
      if (at === undefined || places.has(place)) return;
      places.set(place, bytes.subarray(Math.max(0, at - 120), at + 80).toString('latin1'));
    },
    /** Every file below the folder, as it lies there. */
    async lookInFolder(place: string, folder: string): Promise<void> {
      for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
        if (entry.isFile()) this.look(`${place} ${entry.name}`, await readFile(join(entry.parentPath, entry.name)));
      }
    },
    /** Where it was found, each with what stands around it. */
    found: (): string[] => [...places].map(([place, around]) => `${place}: ${JSON.stringify(around)}`),
  };
}

export type SecretSearch = ReturnType<typeof secretSearch>;
