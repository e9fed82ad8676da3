import { type Issue, refuse, WindlassError } from '../errors.ts';
import { type LaunchPayload, launchSchema } from '../jobs/catalog.ts';
import { matches } from '../jobs/images.ts';
import { parsePayload } from '../jobs/parse.ts';
import { compareQuantity } from '../quantity.ts';
import { granted, type Offer } from './offer.ts';

/** A launch request as accepted: defaults filled in, resources and lifetime clamped. */
export interface AcceptedLaunch {
  readonly payload: LaunchPayload;
  readonly owner: string;
  readonly cluster: string;
  readonly deadlineSeconds: number;
  readonly lifetime: Readonly<Record<string, unknown>>;
  readonly limits: Readonly<Record<string, string>>;
}

/** Checks a launch request against the offer; throws with all issues at once, before anything is written (I1). */
export function acceptLaunch(payload: unknown, offer: Offer, by: { readonly owner?: string }): AcceptedLaunch {
  const request = parsePayload(launchSchema, payload, 'launch');
  const owner = request.owner ?? by.owner ?? 'default';
  const issues: Issue[] = [];
  const recipe = findRecipe(request, offer, owner);
  const cluster = chooseCluster(request, offer, owner, issues);
  issues.push(
    ...metadataIssues(request, offer),
    ...appIssues(request, offer),
    ...agentIssues(request, offer),
    ...secretRefIssues(request, offer, owner),
  );
  refuse('payload_invalid', 'The launch request is not valid', issues);
  const maxSeconds = Math.min(request.lifetime?.maxSeconds ?? recipe.lifetime.maxSeconds, offer.limits.maxLifetimeSeconds);
  const limits = clamp(request.resources?.limits ?? {}, offer.limits.resources);
  const requests = clamp(request.resources?.requests ?? {}, offer.limits.resources);
  const clamped = request.resources === undefined ? request : { ...request, resources: { limits, requests } };
  return {
    payload: clamped,
    owner,
    cluster,
    deadlineSeconds: request.deadlineSeconds ?? recipe.totalSeconds,
    lifetime: { ...recipe.lifetime, ...request.lifetime, maxSeconds },
    limits,
  };
}

interface Chosen {
  readonly totalSeconds: number;
  readonly lifetime: { readonly maxSeconds: number; readonly [key: string]: unknown };
}

function findRecipe(request: LaunchPayload, offer: Offer, owner: string): Chosen {
  const kind = request.app === undefined ? 'profile' : 'app';
  const name = request.app ?? request.profile ?? '';
  const known = kind === 'app' ? offer.apps : offer.profiles;
  const found = Object.hasOwn(known, name) ? known[name] : undefined;
  if (found === undefined || !granted(found.owners, owner)) {
    const names = Object.entries(known)
      .filter(([, entry]) => granted(entry.owners, owner))
      .map(([key]) => key);
    const message = `"${name}" is not offered to ${owner}; there is: ${names.join(', ') || 'none'}`;
    throw new WindlassError('profile_unknown', `There is no ${kind} "${name}" for ${owner}.`, {
      issues: [{ path: kind, message }],
    });
  }
  const problems = found.imageProblems ?? [];
  if (problems.length > 0)
    throw new WindlassError('image_not_allowed', `An image of the ${kind} "${name}" ${problems.join(' and ')}.`, {
      issues: problems.map((message) => ({ path: kind, message: `an image of it ${message}` })),
    });
  if ('totalSeconds' in found) return { totalSeconds: found.totalSeconds, lifetime: found.lifetime };
  return { totalSeconds: 1800, lifetime: { maxSeconds: 86_400, idleSeconds: 0, onIdle: 'teardown', onExpire: 'teardown' } };
}

function chooseCluster(request: LaunchPayload, offer: Offer, owner: string, issues: Issue[]): string {
  const usable = Object.entries(offer.clusters).filter(([, cluster]) => granted(cluster.owners, owner) && cluster.acceptLaunches);
  const names = usable.map(([name]) => name);
  const wanted = request.cluster ?? (names.includes('default') ? 'default' : names.length === 1 ? names[0] : undefined);
  if (wanted === undefined)
    issues.push({ path: 'cluster', message: `must name one of: ${names.join(', ') || 'none is open to you'}` });
  else if (!names.includes(wanted))
    issues.push({
      path: 'cluster',
      message: `"${wanted}" does not take launches of ${owner}; there is: ${names.join(', ') || 'none'}`,
    });
  return wanted ?? '';
}

function metadataIssues(request: LaunchPayload, offer: Offer): Issue[] {
  return (['labels', 'annotations'] as const).flatMap((field) =>
    Object.keys(request[field] ?? {})
      .filter((key) => !offer.metadataAllow.some((pattern) => matches(pattern, key)))
      .map((key) => ({
        path: `${field}.${key}`,
        message: `is not allowed; metadataPolicy.allow has: ${offer.metadataAllow.join(', ') || 'nothing'}`,
      })),
  );
}

/** An app takes from a caller only what its entry lists. */
function appIssues(request: LaunchPayload, offer: Offer): Issue[] {
  if (request.app === undefined) return [];
  const app = offer.apps[request.app];
  if (app === undefined) return [];
  const issues: Issue[] = [];
  for (const field of ['command', 'prepare', 'repository', 'secretEnv'] as const) {
    if (request[field] !== undefined && !app.allow.includes(field))
      issues.push({ path: field, message: `is not allowed for the app "${request.app}"` });
  }
  for (const name of Object.keys(request.env ?? {})) {
    if (!app.allowEnv.includes(name))
      issues.push({ path: `env.${name}`, message: `is not allowed for the app "${request.app}"` });
  }
  return issues;
}

/** What only an agent of ours can do: taken and then left out would be worse than refused. */
function agentIssues(request: LaunchPayload, offer: Offer): Issue[] {
  const name = request.app ?? request.profile ?? '';
  const profile = request.app === undefined ? offer.profiles[name] : undefined;
  const none = request.app !== undefined || profile?.delivery === 'none';
  const asked = (fields: readonly (keyof LaunchPayload)[], why: string): Issue[] =>
    fields.filter((field) => request[field] !== undefined).map((field) => ({ path: field, message: why }));
  if (none) {
    const why = `needs an agent in the workspace, and "${name}" runs its image as it is (delivery none)`;
    return asked(['prepare', 'repository', 'secretEnv', 'sealedEnv'], why);
  }
  return profile?.protocol === 'agentctl' ? asked(['command'], `is not run by the agent of "${name}" (protocol agentctl)`) : [];
}

function secretRefIssues(request: LaunchPayload, offer: Offer, owner: string): Issue[] {
  const grants = request.profile === undefined ? [] : (offer.profiles[request.profile]?.secretRefs ?? []);
  return Object.entries(request.secretRefs ?? {}).flatMap(([name, reference]) => {
    const fits = grants.some(
      (grant) => grant.secret === reference.secret && grant.keys.includes(reference.key) && granted(grant.owners, owner),
    );
    return fits
      ? []
      : [
          {
            path: `secretRefs.${name}`,
            message: `the secret ${reference.secret}, key ${reference.key}, is not granted by the profile`,
          },
        ];
  });
}

/** Each quantity at most its ceiling; a resource without a ceiling is left as asked. */
function clamp(wanted: Readonly<Record<string, string>>, ceilings: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(wanted).map(([name, quantity]) => {
      const ceiling = ceilings[name];
      return [name, ceiling !== undefined && compareQuantity(quantity, ceiling) > 0 ? ceiling : quantity];
    }),
  );
}
