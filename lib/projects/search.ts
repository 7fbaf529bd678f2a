import { detailLine } from '../base/shared/audit.js'
import type { ProjectScope } from '../model/access.js'
import type { Reader, Value } from '../core/store/database.js'
import { nameOfActor } from '../core/store/tables/projects.js'
import { among, nullable, number, rowReader, text, where } from '../core/store/tables/table.js'
import { readFile } from 'node:fs/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createGate } from '../base/async.js'
import { Refusal } from '../base/errors.js'
import { findDeployment } from '../core/store/tables/deployments.js'
import type { DeploymentRow } from '../model/deployment.js'
import type { PlacedRelease } from '../model/node.js'
import type { Project } from '../model/project.js'
import {
  type Component,
  type ComponentQuery,
  type ComponentSearch,
  type FoundComponent,
  matchesComponent,
  readSbom
} from '../model/sbom.js'

/** The types of results, in the order in which they are shown. */
export const searchTypes = ['projects', 'deployments', 'log-sources', 'audit', 'settings'] as const
export type SearchType = (typeof searchTypes)[number]

/** One result, with a link to its page. */
export interface SearchItem {
  id: string
  title: string
  subtitle: string
  /** Address of the page, relative to the panel's base. */
  href: string
}

/** The results of one type. */
export interface Found {
  /** Number of matches among the rows that were searched, at most `maxCounted`. */
  total: number
  items: SearchItem[]
}

export interface SearchResult {
  q: string
  groups: Array<Found & { type: SearchType }>
}

export interface SearchQuery {
  q: string
  types: readonly SearchType[]
  /** Maximum number of items in each group. */
  limit: number
  /** The projects that the caller may see. */
  scope?: ProjectScope
}

/** Returns the rows that contain `q`, ignoring case: exact names first, then the newest. */
export type Finder = (q: string, limit: number, scope: ProjectScope) => Found

/** The search over everything that has a page. */
export type Search = ReturnType<typeof createSearch>

/** Number of newest rows that a search reads, which limits its time (test/projects/search.test.ts). */
const maxDeployments = 10_000
const maxAuditEntries = 5000
const maxCounted = 1000

interface Needs {
  store: Reader
  settings: ReadonlyArray<{ key: string; help: string }>
}

/** Creates the search over projects, deployments, log sources, the audit log and settings. */
export function createSearch({ store, settings }: Needs) {
  const finders: Record<SearchType, Finder> = {
    projects: (q, limit, scope) => findProjects(store, { q, limit, scope }),
    deployments: (q, limit, scope) => findDeployments(store, { q, limit, scope }),
    'log-sources': (q, limit, scope) => findLogSources(store, { q, limit, scope }),
    audit: (q, limit) => findAudit(store, q, limit),
    settings: (q, limit) => findSettings(settings, q, limit)
  }
  return {
    find({ q, types, limit, scope }: SearchQuery): SearchResult {
      const wanted = searchTypes.filter(type => types.includes(type))
      if (q === '') return { q, groups: wanted.map(type => ({ type, total: 0, items: [] })) }
      return { q, groups: wanted.map(type => ({ type, ...finders[type](q, limit, scope) })) }
    }
  }
}

const readProject = rowReader('projects', { id: text, name: text, deployPath: text, env: text, total: number })

/** What one finder searches for. */
interface Wanted {
  q: string
  limit: number
  scope: ProjectScope
}

function findProjects(store: Reader, { q, limit, scope }: Wanted): Found {
  const match = within(matching(q, ['name', 'id', 'description', 'deployPath', 'env']), 'id', scope)
  const rows = store.all(
    `SELECT id, name, deployPath, env, count(*) OVER () AS total FROM projects
     WHERE ${match.condition} ORDER BY (name = ? COLLATE NOCASE) DESC, createdAt DESC, position DESC LIMIT ?`,
    ...match.values,
    q,
    limit
  )
  return foundIn(rows.map(readProject), ({ id, name, deployPath, env }) => {
    return { id, title: name, subtitle: `${env} · ${deployPath}`, href: `projects/${id}` }
  })
}

const readLogSource = rowReader('logSources', { id: text, projectId: text, label: text, filePath: text, total: number })

function findLogSources(store: Reader, { q, limit, scope }: Wanted): Found {
  const match = within(matching(q, ['label', 'id', 'filePath']), 'projectId', scope)
  const rows = store.all(
    `SELECT id, projectId, label, filePath, count(*) OVER () AS total FROM logSources
     WHERE ${match.condition} ORDER BY (label = ? COLLATE NOCASE) DESC, position DESC LIMIT ?`,
    ...match.values,
    q,
    limit
  )
  return foundIn(rows.map(readLogSource), ({ id, projectId, label, filePath }) => {
    return { id, title: label, subtitle: filePath, href: `projects/${projectId}/logs/${id}` }
  })
}

const readDeployment = rowReader('deployments', {
  id: text,
  projectName: text,
  status: text,
  message: nullable(text),
  startTime: text,
  total: number
})

function findDeployments(store: Reader, { q, limit, scope }: Wanted): Found {
  const match = matching(q, ['message', 'projectName', 'errorMessage'])
  const seen = among({ conditions: [], values: [] }, 'projectId', scope)
  const rows = store.all(
    `SELECT *, count(*) OVER () AS total FROM (
       SELECT id, projectName, status, message, startTime FROM (
         SELECT id, projectName, status, message, errorMessage, startTime
         FROM deployments ${where(seen.conditions)} ORDER BY orderedAt DESC, position DESC LIMIT ${maxDeployments}
       ) WHERE id LIKE ? ESCAPE '\\' OR ${match.condition} LIMIT ${maxCounted}
     ) LIMIT ?`,
    ...seen.values,
    idPattern('dep_', q),
    ...match.values,
    limit
  )
  return foundIn(rows.map(readDeployment), ({ id, projectName, status, message, startTime }) => {
    return {
      id,
      title: message ?? id,
      subtitle: `${projectName} · ${status} · ${startTime}`,
      href: `deployments/${id}`
    }
  })
}

const readEntry = rowReader('audit', {
  id: text,
  at: text,
  action: text,
  actor: text,
  target: nullable(text),
  detail: nullable(text),
  total: number
})

function findAudit(store: Reader, q: string, limit: number): Found {
  const match = matching(q, ['action', 'ip', 'target', 'detail'])
  const rows = store.all(
    `SELECT *, count(*) OVER () AS total FROM (
       SELECT id, at, action, actor, target, detail FROM (
         SELECT id, at, action, actor, ip, target, detail FROM audit ORDER BY position DESC LIMIT ${maxAuditEntries}
       ) WHERE ${match.condition} LIMIT ${maxCounted}
     ) LIMIT ?`,
    ...match.values,
    limit
  )
  return foundIn(rows.map(readEntry), ({ id, at, action, actor, target, detail }) => {
    const who = nameOfActor(store, actor)
    const subtitle = [who, detail === null ? target : detailLine(detail), at].filter(Boolean).join(' · ')
    return { id, title: action, subtitle, href: `audit?action=${encodeURIComponent(action)}` }
  })
}

/** Searches names and descriptions of settings, never their values, which may be secrets. */
function findSettings(settings: Needs['settings'], q: string, limit: number): Found {
  const wanted = q.toLowerCase()
  const rows = settings.filter(({ key, help }) => `${key}\n${help}`.toLowerCase().includes(wanted))
  const items = rows
    .slice(0, limit)
    .map(({ key, help }) => ({ id: key, title: key, subtitle: help, href: `settings?key=${key}` }))
  return { total: rows.length, items }
}

function foundIn<R extends { total: number }>(rows: R[], itemOf: (row: R) => SearchItem): Found {
  return { total: rows[0]?.total ?? 0, items: rows.map(itemOf) }
}

/** Returns a pattern for ids that begin with `q`, with or without their prefix. Other parts of an id are random. */
function idPattern(prefix: string, q: string): string {
  return `${escaped(q.startsWith(prefix) ? q : prefix + q)}%`
}

interface Match {
  condition: string
  values: Value[]
}

/** Returns a condition for columns that contain `q`. LIKE ignores the case of ASCII only, so other text is searched as
 * written, in lower and in upper case. */
function matching(q: string, columns: string[]): Match {
  const forms = /^[\x00-\x7f]*$/.test(q) ? [q] : [...new Set([q, q.toLowerCase(), q.toUpperCase()])]
  const patterns = forms.map(form => `%${escaped(form)}%`)
  const conditions = columns.flatMap(column => patterns.map(() => `${column} LIKE ? ESCAPE '\\'`))
  return { condition: `(${conditions.join(' OR ')})`, values: columns.flatMap(() => patterns) }
}

/** Adds a scope to a condition. */
function within(match: Match, column: string, scope: ProjectScope): Match {
  const { conditions, values } = among({ conditions: [match.condition], values: [...match.values] }, column, scope)
  return { condition: conditions.join(' AND '), values }
}

function escaped(text: string): string {
  return text.replace(/[\\%_]/g, '\\$&')
}

/* Finds where a component is in place now, in the lists of components that clients sent with their releases. */

interface ComponentNeeds {
  store: Reader
  /** Path of the list of components of a deployment. */
  sbomOf(deployId: string): string
  liveDeployment(projectId: string): DeploymentRow | undefined
  releasesOnNodes(projectId: string): PlacedRelease[]
}

/** Maximum number of components of an answer. */
const maxFound = 1000
/** Maximum number of projects that an answer names because nothing is known of them. */
const maxUnknown = 1000
/** Lists of components in memory, so that a second search reads no file: about 300,000 components. */
const maxCachedComponents = 300_000
/** Rollbacks and promotions of one release, one from the other. */
const maxSteps = 20
/** Components that are compared without a pause: about 5 ms. */
const componentsPerTurn = 10_000

/** A release in place, and where. */
interface InPlace extends Pick<FoundComponent, 'target' | 'nodes' | 'nodeCount'> {
  project: Project
  row: DeploymentRow
}

export type Components = ReturnType<typeof createComponents>

/** Creates the search. One runs at a time. */
export function createComponents(needs: ComponentNeeds) {
  const cache = createCache()
  const gate = createGate({
    places: 1,
    maxWaiting: 8,
    full: () =>
      new Refusal('conflict', 'search_busy', 'Other searches for components are in progress. Try again later', {
        retryAfterSeconds: 5
      })
  })

  /** Returns the components of a deployment, or of the one whose release it deployed again; null: it has no list. */
  async function componentsOf(row: DeploymentRow): Promise<readonly Component[] | null> {
    for (let left = maxSteps, at: DeploymentRow | undefined = row; at !== undefined && left > 0; left--) {
      const known = cache.get(at.id)
      if (known !== undefined) return known
      const bytes = await readIfAny(needs.sbomOf(at.id))
      if (bytes !== null) return cache.put(at.id, componentsIn(bytes))
      const source: string | null = at.rollbackOf ?? at.promotedFrom
      const before: DeploymentRow | undefined = source === null ? undefined : findDeployment(needs.store, source)
      // Another state of the files has other components.
      at = before !== undefined && before.treeSha256 === row.treeSha256 ? before : undefined
    }
    return null
  }

  return {
    /** Searches the releases in place of these projects. */
    async search(projects: readonly Project[], query: ComponentQuery, signal: AbortSignal): Promise<ComponentSearch> {
      const leave = await gate.enter(signal)
      try {
        const answer: ComponentSearch = { success: true, components: [], truncated: false, searched: 0, unknown: [] }
        for (const { project, row, ...place } of inPlace(projects, needs)) {
          signal.throwIfAborted()
          const about = { projectId: project.id, projectName: project.name, deployId: row.id }
          const components = await componentsOf(row)
          if (components === null) {
            if (answer.unknown.length < maxUnknown) answer.unknown.push(about)
            continue
          }
          answer.searched++
          for (const [at, component] of components.entries()) {
            if (at % componentsPerTurn === componentsPerTurn - 1) await nextTurn()
            if (!matchesComponent(component, query)) continue
            if (answer.components.length === maxFound) return { ...answer, truncated: true }
            answer.components.push({ ...about, since: row.endTime ?? row.startTime, ...place, ...component })
          }
          await nextTurn()
        }
        return answer
      } finally {
        leave()
      }
    }
  }
}

function* inPlace(projects: readonly Project[], needs: ComponentNeeds): Generator<InPlace> {
  for (const project of projects) {
    const releases = needs.releasesOnNodes(project.id)
    if (releases.length === 0) {
      const row = needs.liveDeployment(project.id)
      if (row !== undefined) yield { project, row, target: project.deployPath, nodes: [], nodeCount: 0 }
    }
    for (const { deployId, names, nodes, drained } of releases) {
      const row = deployId === null ? undefined : findDeployment(needs.store, deployId)
      if (row !== undefined) yield { project, row, target: null, nodes: names, nodeCount: nodes + drained }
    }
  }
}

async function readIfAny(path: string): Promise<Buffer | null> {
  try {
    return await readFile(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/** A list that an earlier svc kept, and this one cannot read, is as none: the search goes on. */
function componentsIn(bytes: Buffer): readonly Component[] | null {
  try {
    return readSbom(bytes).components
  } catch (error) {
    if (error instanceof Refusal) return null
    throw error
  }
}

function createCache() {
  const lists = new Map<string, readonly Component[] | null>()
  let count = 0
  return {
    get(deployId: string): readonly Component[] | null | undefined {
      return lists.get(deployId)
    },
    put(deployId: string, list: readonly Component[] | null): readonly Component[] | null {
      lists.set(deployId, list)
      count += 1 + (list?.length ?? 0)
      // The oldest first.
      for (const [id, old] of lists) {
        if (count <= maxCachedComponents || id === deployId) break
        lists.delete(id)
        count -= 1 + (old?.length ?? 0)
      }
      return list
    }
  }
}
