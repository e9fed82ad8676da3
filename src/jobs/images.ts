import type { Config } from '../config/schema.ts';
import type { Issue } from '../errors.ts';
import type { Recipe } from './recipes.ts';

/** Which images of a recipe the allow-list refuses; an empty list allows all. */
export function imageIssues(recipe: Recipe, policy: Config['images']): Issue[] {
  return imagesOf(recipe).flatMap(({ path, image }) =>
    imageProblems(image, policy).map((message) => ({ path, message: `${image} ${message}` })),
  );
}

/** The same for whoever asks for the recipe: every kind of problem once, no image named. */
export function recipeImageProblems(recipe: Recipe, policy: Config['images']): string[] {
  return [...new Set(imagesOf(recipe).flatMap(({ image }) => imageProblems(image, policy)))];
}

/** All that its Pods run, the image that delivery init_image copies from included. */
function imagesOf({ template, profile }: Recipe): { readonly path: string; readonly image: string }[] {
  const spec = template.template?.spec;
  const containers = [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])];
  return [
    ...containers.map(({ name, image = '' }) => ({ path: `containers.${name}.image`, image })),
    ...(profile.agent.image === undefined ? [] : [{ path: 'agent.image', image: profile.agent.image }]),
  ];
}

/** What the policy has against one image, without its name: not everybody who asks may learn that. */
function imageProblems(image: string, policy: Config['images']): string[] {
  const problems: string[] = [];
  if (policy.allow.length > 0 && !policy.allow.some((pattern) => matches(pattern, image)))
    problems.push('matches nothing in images.allow');
  if (policy.requireDigest && !/@sha256:[0-9a-f]{64}$/.test(image))
    problems.push('must be given by digest (images.requireDigest)');
  return problems;
}

/** `*` within a path segment, `**` across them. Linear in the text: two indices and one place to go back to, no regular expression. */
export function matches(pattern: string, text: string): boolean {
  let p = 0;
  let back: { readonly p: number; t: number; readonly across: boolean } | undefined;
  for (let t = 0; t < text.length; ) {
    if (pattern[p] === '*') {
      const across = pattern[p + 1] === '*';
      p += across ? 2 : 1;
      back = { p, t, across };
    } else if (p < pattern.length && pattern[p] === text[t]) {
      p += 1;
      t += 1;
    } else if (back !== undefined && (back.across || text[back.t] !== '/')) {
      back.t += 1;
      p = back.p;
      t = back.t;
    } else return false;
  }
  while (pattern[p] === '*') p += 1;
  return p === pattern.length;
}
