import { basename, isAbsolute, normalize } from 'node:path'
import { type Clock, instantOf } from '../../base/clock.js'
import type { Ids } from '../../base/digests.js'
import { applyToEach } from '../../base/async.js'
import { Refusal, invalid, notFound } from '../../base/errors.js'
import { writeChanges } from '../../base/shared/audit.js'
import type { Actor, AuditEvent } from '../../model/audit.js'
import type { BulkOutcome } from '../../model/project.js'
import { beyondDefaults, changes, type Readers } from '../../model/readers.js'
import type { LogKind, LogSource } from '../../model/log-source.js'
import type { Store, Transaction } from '../../core/store/database.js'
import {
  deleteLogSource,
  findLogSource,
  insertLogSource,
  listAllLogSources,
  listLogSources,
  updateLogSource
} from '../../core/store/tables/projects.js'
import type { OpenLog } from './read/open.js'

/** A log file to register. */
export interface NewLogSource {
  filePath: string
  /** Default: the name of the file. */
  label?: string | undefined
  kind?: LogKind | undefined
}

/** Changeable fields of a log source (§4.9). */
export interface LogSourceFields {
  label?: string | undefined
  kind?: LogKind | undefined
  sortOrder?: number | undefined
}

/** The log files that are registered for projects (§4.9). */
export type LogSources = ReturnType<typeof createLogSources>

interface Needs {
  store: Store
  clock: Clock
  ids: Pick<Ids, 'id'>
  audit: { within(tx: Transaction, event: AuditEvent): void }
  openLog: OpenLog
  /** Throws if the project does not exist. */
  checkProject(projectId: string): void
}

/** Maximum number of log sources of a project. */
const maxSources = 1_000

/** What the audit entries of a source show. */
type Audited = Pick<LogSource, 'label' | 'filePath' | 'kind' | 'sortOrder'>

/** Who reads it. */
export const logSourceReaders: Readers<Audited> = {
  fields: { label: 'everybody', filePath: 'everybody', kind: 'everybody', sortOrder: 'everybody' }
}

export function createLogSources({ store, clock, ids, audit, openLog, checkProject }: Needs) {
  function get(id: string): LogSource {
    const source = findLogSource(store, id)
    if (source === undefined) throw notFound('Log source', id)
    return source
  }

  async function remove(id: string, actor: Actor): Promise<void> {
    await store.write(tx => {
      const { projectId, label, filePath } = get(id)
      deleteLogSource(tx, id)
      const detail = label === basename(filePath) ? filePath : `${label} (${filePath})`
      audit.within(tx, { action: 'log_source.delete', actor, projectId, target: id, detail })
    })
  }

  return {
    /** Returns one source. Refuses: 404. */
    get,
    /** Returns a log source; undefined if there is none with this id. */
    find: (id: string): LogSource | undefined => findLogSource(store, id),
    /** Removes the source, never the file. Refuses: 404. */
    remove,

    /** Returns the sources of a project by sortOrder, then by age. Refuses: 404. */
    list(projectId: string): LogSource[] {
      checkProject(projectId)
      return listLogSources(store, projectId)
    },

    /** Returns the sources of all projects, each project's in its order. */
    listAll: (): LogSource[] => listAllLogSources(store),

    /**
     * Adds all items or none. A refusal names the item (`items[3].filePath`). A file that does not exist yet may be
     * added. Refuses: 404; 400 if the path is not absolute or not a file; 403 `denied_path`, `not_readable`; 409
     * `too_many_sources`.
     */
    async create(projectId: string, items: NewLogSource[], actor: Actor): Promise<LogSource[]> {
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
        const at = instantOf(clock)
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
          const usual = { ...source, label: basename(filePath), filePath: '', kind: 'plain' } as const
          const detail = writeChanges(source.label, beyondDefaults<Audited>(usual, source, logSourceReaders))
          audit.within(tx, { action: 'log_source.create', actor, projectId, target: source.id, detail })
          return source
        })
      })
    },

    /** Changes a source. Refuses: 404. */
    update: (id: string, fields: LogSourceFields, actor: Actor): Promise<LogSource> =>
      store.write(tx => {
        const source = get(id)
        const changed = changesOf(source, fields)
        if (Object.keys(changed).length === 0) return source
        updateLogSource(tx, id, { ...changed, updatedAt: instantOf(clock) })
        const detail = writeChanges(source.label, changes<Audited>(source, { ...source, ...changed }, logSourceReaders))
        audit.within(tx, { action: 'log_source.update', actor, projectId: source.projectId, target: id, detail })
        return get(id)
      }),

    /** Removes several sources, each on its own. */
    removeAll: (chosen: string[], actor: Actor): Promise<BulkOutcome> => applyToEach(chosen, id => remove(id, actor))
  }
}

/** Returns the given fields whose values differ from the source. */
function changesOf(source: LogSource, fields: LogSourceFields): Partial<LogSource> {
  const given = Object.entries(fields).filter(
    ([field, value]) => value !== undefined && value !== source[field as keyof LogSourceFields]
  )
  return Object.fromEntries(given)
}

/** Returns the normalised path of a file that may be a source: it can be opened, or does not exist yet. */
async function checkedPath(openLog: OpenLog, filePath: string, field: string): Promise<string> {
  if (!isAbsolute(filePath)) throw invalid(field, `Cannot add "${filePath}" as a log source: the path must be absolute`)
  if (/[\\/]$/.test(filePath)) throw invalid(field, `Cannot add "${filePath}" as a log source: it is a directory`)
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
  const sentence = `Cannot add the log sources: the project has ${present} already, the maximum is ${maxSources}`
  return new Refusal('conflict', 'too_many_sources', sentence, { field: 'items' })
}
