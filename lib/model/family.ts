import { environmentRank, environments } from '../base/shared/api.js'
import type { DeploymentRow } from './deployment.js'
import type { Project } from './project.js'
import type { Instant } from './scalars.js'

/*
 * Families: the projects of one application, side by side. Pure.
 *
 * Projects are of one family if they have a common tag `app:<name>`, if one takes its releases from the other (the policy
 * `promoteFrom`), or if their names are the same without the word of an environment: shop, shop-staging, dev.shop, shop (test),
 * shop-staging-eu.
 */

/** A release that is in place in a project. */
export type FamilyRelease = Pick<
  DeploymentRow,
  'id' | 'message' | 'triggerSource' | 'undoOf' | 'provenance' | 'treeSha256'
> & {
  /** When its deployment ended. */
  since: Instant
  /** Whether it can be promoted. */
  isPromotable: boolean
}

/** How far a release is from the one in the first environment. */
export interface Distance {
  /** Whether both have the same files. */
  isSame: boolean
  /**
   * Number of releases that the first environment had since. Below 0: it went back by as many. Null: the first environment
   * never had these files.
   */
  releases: number | null
}

/** A project of a family. */
export interface FamilyMember {
  projectId: string
  projectName: string
  /** The environment of the project, or the one in its name if it names none. */
  env: string
  /** The release in place; on nodes, that of the most. Null: none is known. */
  release: FamilyRelease | null
  /** Number of nodes that have the release, and of all. Null: the project is not on nodes. */
  nodes: { have: number; all: number } | null
  /** Null: it is the first one with a release, or cannot be compared with it. */
  distance: Distance | null
  /** The projects that get its release next. */
  promotesTo: string[]
}

/** Projects of one application. @schema Family */
export interface Family {
  name: string
  /** In the order in which a release passes them, production last. */
  members: FamilyMember[]
}

/** The fields of a project that say of which family it is. */
export type Relative = Pick<Project, 'id' | 'name' | 'env' | 'tagIds' | 'policy'>

const appTag = 'app:'
const words = environments.flat().join('|')
const atEnd = new RegExp(`^(.+?)(?:[-_. /]+|\\s*[([])(${words})\\d*[)\\]]?$`, 'i')
const inside = new RegExp(`^(.+?)[-_. /]+(${words})\\d*([-_. /]+.+)$`, 'i')
const atStart = new RegExp(`^(${words})\\d*[-_. /]+(.+)$`, 'i')

/** Returns a name without the word of an environment, and this word; null: there is no such word. */
export function splitName(name: string): { base: string; word: string | null } {
  const [, base, word] = atEnd.exec(name) ?? []
  if (base !== undefined && word !== undefined) return { base, word: word.toLowerCase() }
  const [, first, rest] = atStart.exec(name) ?? []
  if (first !== undefined && rest !== undefined) return { base: rest, word: first.toLowerCase() }
  const [, before, within, after] = inside.exec(name) ?? []
  return within === undefined ? { base: name, word: null } : { base: `${before}${after}`, word: within.toLowerCase() }
}

/** Returns the environment of a project. One that was left at its default is the one in the name. */
export function environmentOf({ name, env }: Pick<Relative, 'name' | 'env'>, defaultEnv: string): string {
  return env === defaultEnv ? (splitName(name).word ?? env) : env
}

/** Returns the families with several projects, by name; their projects in the order in which a release passes them. */
export function familiesOf<P extends Relative>(
  projects: readonly P[],
  { tagNames, defaultEnv }: { tagNames: ReadonlyMap<string, string>; defaultEnv: string }
): Array<{ name: string; members: P[] }> {
  const groups = new Map<string, { name: string; members: P[] }>()
  const groupOf = new Map<string, { name: string; members: P[] }>()
  for (const project of projects) {
    const tag = project.tagIds.map(id => tagNames.get(id) ?? '').find(name => name.toLowerCase().startsWith(appTag))
    const name = tag === undefined ? splitName(project.name).base : tag.slice(appTag.length).trim()
    const group = groups.get(name.toLowerCase()) ?? { name, members: [] }
    groups.set(name.toLowerCase(), group)
    group.members.push(project)
    groupOf.set(project.id, group)
  }
  for (const { id, policy } of projects) {
    const [own, other] = [groupOf.get(id), groupOf.get(policy.promoteFrom?.projectId ?? '')]
    if (own === undefined || other === undefined || own === other) continue
    for (const member of own.members) groupOf.set(member.id, other)
    other.members.push(...own.members.splice(0))
  }
  const rank = (project: P): number => environmentRank(environmentOf(project, defaultEnv))
  return [...groups.values()]
    .filter(({ members }) => members.length > 1)
    .sort((a, b) => collator.compare(a.name, b.name))
    .map(({ name, members }) => {
      return { name, members: members.sort((a, b) => rank(a) - rank(b) || collator.compare(a.name, b.name)) }
    })
}

const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' })

/** Returns the projects that get the release of one next: those that take it from there, else those of the next environment. */
export function nextOf(members: readonly Relative[], from: Relative, defaultEnv: string): string[] {
  const taking = members.filter(({ policy }) => policy.promoteFrom?.projectId === from.id)
  if (taking.length > 0) return taking.map(({ id }) => id)
  const rank = (project: Relative): number => environmentRank(environmentOf(project, defaultEnv))
  const later = members.filter(other => rank(other) > rank(from) && !other.policy.promoteFrom)
  const next = Math.min(...later.map(rank))
  return later.filter(other => rank(other) === next).map(({ id }) => id)
}

/**
 * Returns how far a tree is from the one in place in the first environment. `history` are the trees that the first
 * environment has had, in the order in which it had them first.
 */
export function distanceOf(tree: string | null, first: string | null, history: readonly string[]): Distance | null {
  if (tree === null || first === null) return null
  if (tree === first) return { isSame: true, releases: 0 }
  const [at, firstAt] = [history.indexOf(tree), history.indexOf(first)]
  return { isSame: false, releases: at === -1 || firstAt === -1 ? null : firstAt - at }
}
