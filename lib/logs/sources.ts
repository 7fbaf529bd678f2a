import { basename, isAbsolute, normalize } from 'node:path'
import type { Clock } from '../base/clock.js'
import type { Ids } from '../base/ids.js'
import { Refusal, invalid, notFound } from '../base/refusal.js'
import type { Actor, AuditEvent } from '../model/audit.js'
import type { LogKind, LogSource } from '../model/log-source.js'
import type { Store, Transaction } from '../store/database.js'
import {
  deleteLogSource,
  findLogSource,
  insertLogSource,
  listAllLogSources,
  listLogSources,
  updateLogSource
} from '../store/tables/log-sources.js'
import type { OpenLog } from './open.js'

export interface NewLogSource {
  filePath: string
  /** Default: the file's name. */
  label?: string | undefined
  kind?: LogKind | undefined
}

/** What may be changed of a source (§4.9). */
export interface LogSourceFields {
  label?: string | undefined
  kind?: LogKind | undefined
  sortOrder?: number | undefined
}

/** The files that projects want to look at (§4.9). */
export interface LogSources {
  /** By sortOrder, then as added. Refuses: 404. */
  list(projectId: string): LogSource[]
  /** Of all projects, each project's in its order. */
  listAll(): LogSource[]
  /** Refuses: 404. */
  get(id: string): LogSource
  /**
   * All or none; a refusal names the item (`items[3].filePath`). A file that does not exist yet may be added. Refuses:
   * 404, 400 a path that is not absolute or no file, 403 `denied_path`, `not_readable`, 409 `too_many_sources`.
   */
  create(projectId: string, items: NewLogSource[], actor: Actor): Promise<LogSource[]>
  /** Refuses: 404. */
  update(id: string, fields: LogSourceFields, actor: Actor): Promise<LogSource>
  /** The association alone, never the file. Refuses: 404. */
  remove(id: string, actor: Actor): Promise<void>
  /** As `remove`, each on its own. */
  removeAll(ids: string[], actor: Actor): Promise<{ done: number; failed: Array<{ id: string; error: string }> }>
}

interface Needs {
  store: Store
  clock: Clock
  ids: Pick<Ids, 'id'>
  audit: { within(tx: Transaction, event: AuditEvent): void }
  openLog: OpenLog
  /** Throws where there is no such project. */
  checkProject(projectId: string): void
}

/** Of one project. */
const maxSources = 1_000

export function createLogSources({ store, clock, ids, audit, openLog, checkProject }: Needs): LogSources {
  const now = (): string => new Date(clock.now()).toISOString()

  function get(id: string): LogSource {
    const source = findLogSource(store, id)
    if (source === undefined) throw notFound('Log source', id)
    return source
  }

  async function remove(id: string, actor: Actor): Promise<void> {
    await store.write(tx => {
      const { projectId, filePath } = get(id)
      deleteLogSource(tx, id)
      audit.within(tx, { action: 'log_source.delete', actor, projectId, target: id, detail: filePath })
    })
  }

  return {
    get,
    remove,

    list(projectId) {
      checkProject(projectId)
      return listLogSources(store, projectId)
    },

    listAll: () => listAllLogSources(store),

    async create(projectId, items, actor) {
      checkProject(projectId)
      const paths: string[] = []
      for (const [index, { filePath }] of items.entries()) {
        paths.push(await checkedPath(openLog, filePath, `items[${index}].filePath`))
      }
      return store.write(tx => {
        checkProject(projectId)
        const before = listLogSources(tx, projectId)
        if (before.length + items.length > maxSources) throw tooMany(before.length)
        const next = Math.max(-1, ...before.map(({ sortOrder }) => sortOrder)) + 1
        const at = now()
        return items.map(({ label, kind = 'plain' }, index) => {
          const filePath = paths[index] as string
          const source: LogSource = {
            id: ids.id('lsrc_'),
            projectId,
            label: label || basename(filePath),
            filePath,
            kind,
            sortOrder: next + index,
            createdAt: at,
            updatedAt: at
          }
          insertLogSource(tx, source)
          audit.within(tx, { action: 'log_source.create', actor, projectId, target: source.id, detail: filePath })
          return source
        })
      })
    },

    update: (id, fields, actor) =>
      store.write(tx => {
        const source = get(id)
        const changed = changesOf(source, fields)
        const detail = Object.keys(changed).join(', ')
        if (detail === '') return source
        updateLogSource(tx, id, { ...changed, updatedAt: now() })
        audit.within(tx, { action: 'log_source.update', actor, projectId: source.projectId, target: id, detail })
        return get(id)
      }),

    async removeAll(chosen, actor) {
      const failed: Array<{ id: string; error: string }> = []
      let done = 0
      for (const id of new Set(chosen)) {
        try {
          await remove(id, actor)
          done++
        } catch (error) {
          if (!(error instanceof Refusal)) throw error
          failed.push({ id, error: error.message })
        }
      }
      return { done, failed }
    }
  }
}

/** Of the fields that are given, those that are not so already. */
function changesOf(source: LogSource, fields: LogSourceFields): Partial<LogSource> {
  const given = Object.entries(fields).filter(([field, value]) => value !== undefined && value !== source[field as keyof LogSourceFields])
  return Object.fromEntries(given)
}

/** The normalised path of a file that may be a source: it can be opened, or does not exist yet. */
async function checkedPath(openLog: OpenLog, filePath: string, field: string): Promise<string> {
  if (!isAbsolute(filePath)) throw invalid(field, `"${filePath}" cannot be a log source: an absolute path is needed`)
  if (/[\\/]$/.test(filePath)) throw invalid(field, `"${filePath}" cannot be a log source: it names a directory`)
  const path = normalize(filePath)
  try {
    const { handle } = await openLog(path, field)
    await handle.close()
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'file_missing') throw error
  }
  return path
}

function tooMany(present: number): Refusal {
  const sentence = `The log sources cannot be added: the project has ${present}, and at most ${maxSources} are possible`
  return new Refusal('conflict', 'too_many_sources', sentence, { field: 'items' })
}
