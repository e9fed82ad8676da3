import type { V1PodTemplate } from '@kubernetes/client-node';
import type { AppConfig, Config, ProfileConfig } from '../config/schema.ts';
import { profileSchema } from '../config/schema.ts';
import { type Issue, refuse, WindlassError } from '../errors.ts';
import { parseTemplate } from '../kubernetes/template.ts';
import { findUnsafe } from '../kubernetes/template-unsafe.ts';
import { canonicalJson, sha256 } from '../names.ts';

/** A validated profile or app: everything that a launch needs besides the request. */
export interface Recipe {
  readonly name: string;
  readonly app: boolean;
  readonly profile: ProfileConfig;
  readonly template: V1PodTemplate;
}

/** A recipe as accepted for one generation: content-addressed text, with a MAC that only consumers can make (I2). */
export interface Snapshot {
  readonly hash: string;
  readonly text: string;
}

export interface Recipes {
  /** Throws profile_unknown: the consumer's own configuration decides, never a job. */
  find(kind: 'profile' | 'app', name: string): Recipe;
  all(): readonly Recipe[];
}

/** Parses every profile and app at start; throws config_invalid with all issues. */
export function createRecipes(config: Config, templates: Readonly<Record<string, string>>): Recipes {
  const issues: Issue[] = [];
  const known = new Map<string, Recipe>();
  for (const [name, profile] of Object.entries(config.profiles)) {
    const path = `profiles.${name}.${profile.podTemplateFile === undefined ? 'podTemplate' : 'podTemplateFile'}`;
    const parsed = parseTemplate(templates[name] ?? '', path, profile);
    issues.push(...parsed.issues);
    if (parsed.template)
      known.set(`profile ${name}`, { name, app: false, profile: withoutSource(profile), template: parsed.template });
  }
  for (const [name, app] of Object.entries(config.apps)) known.set(`app ${name}`, recipeOfApp(name, app));
  refuse('config_invalid', 'The configuration is not valid', issues);
  return {
    find(kind, name) {
      const recipe = known.get(`${kind} ${name}`);
      if (recipe) return recipe;
      throw new WindlassError('profile_unknown', `This worker has no ${kind} "${name}".`, {
        issues: [{ path: kind, message: `"${name}" is not configured` }],
      });
    },
    all: () => [...known.values()],
  };
}

/** Where the template came from is no part of what was accepted: moving the file must not change the hash. */
function withoutSource(profile: ProfileConfig): ProfileConfig {
  const { podTemplateFile: _file, podTemplate: _text, ...rest } = profile;
  return rest;
}

const pullPolicies = { missing: 'IfNotPresent', always: 'Always', never: 'Never' } as const;

/** What `restricted` asks for. A user of our own, since an image that says none would run as root and be refused. */
const unprivileged = {
  runAsNonRoot: true,
  runAsUser: 1000,
  runAsGroup: 1000,
  fsGroup: 1000,
  seccompProfile: { type: 'RuntimeDefault' },
};

/** An app runs its image's own entry point: no agent, ready as soon as it runs. */
function recipeOfApp(name: string, app: AppConfig): Recipe {
  const profile = profileSchema.parse({
    owners: app.owners,
    mainContainer: 'app',
    workspace: { mode: 'empty_dir' },
    agent: { delivery: 'none' },
  });
  const env = Object.entries(app.env).map(([key, value]) => ({ name: key, value }));
  const container = {
    name: 'app',
    image: app.image,
    imagePullPolicy: pullPolicies[app.pullPolicy],
    env,
    securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
  };
  return {
    name,
    app: true,
    profile,
    template: {
      apiVersion: 'v1',
      kind: 'PodTemplate',
      template: { spec: { securityContext: unprivileged, containers: [container] } },
    },
  };
}

export function takeSnapshot(recipe: Recipe): Snapshot {
  const text = canonicalJson({ name: recipe.name, app: recipe.app, profile: recipe.profile, template: recipe.template });
  return { hash: sha256(text), text };
}

/** The recipe inside a snapshot whose MAC was verified; checked against today's policy by the caller (I2). */
export function openSnapshot(text: string): Recipe {
  const value = JSON.parse(text) as Recipe;
  return { name: value.name, app: value.app, profile: value.profile, template: value.template };
}

/** What today's configuration no longer allows of a recorded recipe; empty when it may be used (I2). */
export function policyIssues(recipe: Recipe): Issue[] {
  return findUnsafe(recipe.template, recipe.profile, 'snapshot');
}

export function recipeHashes(recipe: Recipe, clusterHash: string): { cluster: string; profile: string; template: string } {
  return {
    cluster: clusterHash,
    profile: sha256(canonicalJson(recipe.profile)),
    template: sha256(canonicalJson(recipe.template)),
  };
}
