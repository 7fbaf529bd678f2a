import type { DeploymentRow } from '../model/deployment.js'
import type { AuditEntry } from '../model/audit.js'
import type { LogSource } from '../model/log-source.js'
import type { Project } from '../model/project.js'
import type { Reader } from '../store/database.js'

/** What can be found, in the order in which it is shown. */
export const searchTypes = ['projects', 'deployments', 'log-sources', 'audit', 'settings'] as const
export type SearchType = (typeof searchTypes)[number]

export interface SearchItem {
  id: string
  title: string
  subtitle: string
  /** The page, below the panel's base. */
  href: string
}

export interface Found {
  /** All that match, of those that were looked at; counted up to `maxCounted`. */
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
  /** Items of each group. */
  limit: number
}

/** Finds what contains `q`, without regard to case, newest first. */
export type Finder = (q: string, limit: number) => Found

export interface Search {
  find(query: SearchQuery): SearchResult
}

/** As many are looked at, the newest: it bounds the time of a search (test/system/search). */
const maxDeployments = 10_000
const maxAuditEntries = 5000
const maxCounted = 1000

interface Needs {
  store: Reader
  settings: ReadonlyArray<{ key: string; help: string }>
}

/** One search over everything that has a page. */
export function createSearch({ store, settings }: Needs): Search {
  const finders: Record<SearchType, Finder> = {
    projects: (q, limit) => findProjects(store, q, limit),
    deployments: (q, limit) => findDeployments(store, q, limit),
    'log-sources': (q, limit) => findLogSources(store, q, limit),
    audit: (q, limit) => findAudit(store, q, limit),
    settings: (q, limit) => findSettings(settings, q, limit)
  }
  return {
    find({ q, types, limit }) {
      const wanted = searchTypes.filter(type => types.includes(type))
      if (q === '') return { q, groups: wanted.map(type => ({ type, total: 0, items: [] })) }
      return { q, groups: wanted.map(type => ({ type, ...finders[type](q, limit) })) }
    }
  }
}

function findProjects(store: Reader, q: string, limit: number): Found {
  type Row = Pick<Project, 'id' | 'name' | 'deployPath' | 'env'>
  const match = matching(q, ['name', 'id', 'description', 'deployPath', 'env'])
  const rows = store.all<Row & { total: number }>(
    `SELECT id, name, deployPath, env, count(*) OVER () AS total FROM projects
     WHERE ${match.condition} ORDER BY createdAt DESC, position DESC LIMIT ?`,
    ...match.values,
    limit
  )
  return foundIn(rows, ({ id, name, deployPath, env }) => {
    return { id, title: name, subtitle: `${env} · ${deployPath}`, href: `projects/${id}` }
  })
}

function findLogSources(store: Reader, q: string, limit: number): Found {
  type Row = Pick<LogSource, 'id' | 'projectId' | 'label' | 'filePath'>
  const match = matching(q, ['label', 'id', 'filePath'])
  const rows = store.all<Row & { total: number }>(
    `SELECT id, projectId, label, filePath, count(*) OVER () AS total FROM logSources
     WHERE ${match.condition} ORDER BY position DESC LIMIT ?`,
    ...match.values,
    limit
  )
  return foundIn(rows, ({ id, projectId, label, filePath }) => {
    return { id, title: label, subtitle: filePath, href: `projects/${projectId}/logs/${id}` }
  })
}

function findDeployments(store: Reader, q: string, limit: number): Found {
  type Row = Pick<DeploymentRow, 'id' | 'projectName' | 'status' | 'message' | 'startTime'>
  const match = matching(q, ['message', 'projectName', 'errorMessage'])
  const rows = store.all<Row & { total: number }>(
    `SELECT *, count(*) OVER () AS total FROM (
       SELECT id, projectName, status, message, startTime FROM (
         SELECT id, projectName, status, message, errorMessage, startTime
         FROM deployments ORDER BY startTime DESC, position DESC LIMIT ${maxDeployments}
       ) WHERE id LIKE ? ESCAPE '\\' OR ${match.condition} LIMIT ${maxCounted}
     ) LIMIT ?`,
    idPattern('dep_', q),
    ...match.values,
    limit
  )
  return foundIn(rows, ({ id, projectName, status, message, startTime }) => {
    return { id, title: message ?? id, subtitle: `${projectName} · ${status} · ${startTime}`, href: `deployments/${id}` }
  })
}

function findAudit(store: Reader, q: string, limit: number): Found {
  type Row = Pick<AuditEntry, 'id' | 'at' | 'action' | 'actor' | 'target' | 'detail'>
  const match = matching(q, ['action', 'ip', 'target', 'detail'])
  const rows = store.all<Row & { total: number }>(
    `SELECT *, count(*) OVER () AS total FROM (
       SELECT id, at, action, actor, target, detail FROM (
         SELECT id, at, action, actor, ip, target, detail FROM audit ORDER BY position DESC LIMIT ${maxAuditEntries}
       ) WHERE ${match.condition} LIMIT ${maxCounted}
     ) LIMIT ?`,
    ...match.values,
    limit
  )
  return foundIn(rows, ({ id, at, action, actor, target, detail }) => {
    const subtitle = [actor, detail ?? target, at].filter(Boolean).join(' · ')
    return { id, title: action, subtitle, href: `audit?action=${encodeURIComponent(action)}` }
  })
}

/** Their names and what they are for; never their values, which may be secrets. */
function findSettings(settings: Needs['settings'], q: string, limit: number): Found {
  const wanted = q.toLowerCase()
  const rows = settings.filter(({ key, help }) => `${key}\n${help}`.toLowerCase().includes(wanted))
  const items = rows.slice(0, limit).map(({ key, help }) => ({ id: key, title: key, subtitle: help, href: `settings?key=${key}` }))
  return { total: rows.length, items }
}

function foundIn<R extends { total: number }>(rows: R[], itemOf: (row: R) => SearchItem): Found {
  return { total: rows[0]?.total ?? 0, items: rows.map(itemOf) }
}

/** An id is found by how it begins, with its prefix or without: parts of random characters mean nothing. */
function idPattern(prefix: string, q: string): string {
  return `${escaped(q.startsWith(prefix) ? q : prefix + q)}%`
}

/** SQLite's LIKE knows the case of ASCII letters only: other text is looked for as written, and in lower and upper case. */
function matching(q: string, columns: string[]): { condition: string; values: string[] } {
  const forms = /^[\x00-\x7f]*$/.test(q) ? [q] : [...new Set([q, q.toLowerCase(), q.toUpperCase()])]
  const patterns = forms.map(form => `%${escaped(form)}%`)
  const conditions = columns.flatMap(column => patterns.map(() => `${column} LIKE ? ESCAPE '\\'`))
  return { condition: `(${conditions.join(' OR ')})`, values: columns.flatMap(() => patterns) }
}

function escaped(text: string): string {
  return text.replace(/[\\%_]/g, '\\$&')
}
