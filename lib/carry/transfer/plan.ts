/*
 * Plans an import, record by record, without changing anything. A dry run and a refusal therefore come from the same
 * code as the import itself.
 *
 * A record whose id (for a setting, its key) already exists is skipped, or replaced under `overwrite` (§4.13, import
 * rule 1). A category or tag whose name exists under another id is identified with that one: the imported projects get
 * its id.
 */
import { oneLine } from '../../base/text.js'
import { Refusal, invalid } from '../../base/errors.js'
import { maxNameLength } from '../../base/fields.js'
import { isSameName, type Label, type LabelKind, nameKey, type Project } from '../../model/project.js'
import type { NotificationTarget } from '../../model/setting.js'
import { hiddenValue } from '../../model/readers.js'
import type { Strategy } from '../../model/transfer.js'
import type { Reader } from '../../core/store/database.js'
import { findDeployment } from '../../core/store/tables/deployments.js'
import {
  findLabel,
  findLabelByName,
  findProjectByToken,
  listProjects,
  listVariables
} from '../../core/store/tables/projects.js'
import { findNotificationTarget, readSettings } from '../../core/store/tables/server.js'
import { checkDeployPath } from '../../core/install/guard.js'
import { createTargetPlaces } from '../../core/install/overlap.js'
import type { LogSourceTable } from './needs.js'
import { type LogSourceRecord, packageFiles, type PackedVariable } from './package.js'
import type { GivenDeployment, PackageRecords } from './records.js'

/** The action for a record. */
export type Action = 'create' | 'replace' | 'skip'

/** A record and what happens to it. */
export interface Planned<T> {
  id: string
  action: Action
  record: T
}

/** The settings of a package: those that are imported, and those that are left out. */
export interface SettingsPlan {
  /** The imported settings, with the values to store. */
  taken: Map<string, string>
  /** Known settings that are left out because they control access. */
  leftOut: string[]
  unknown: string[]
  /** Sentences on settings whose values cannot be taken. */
  refused: string[]
}

/** Returns the records that are written. */
export function changed<T>(planned: ReadonlyArray<Planned<T>>): Array<Planned<T>> {
  return planned.filter(({ action }) => action !== 'skip')
}

/** Returns the records that are new. */
export function created<T>(planned: ReadonlyArray<Planned<T>>): Array<Planned<T>> {
  return planned.filter(({ action }) => action === 'create')
}

/** Returns the records that take the place of others. */
export function replaced<T>(planned: ReadonlyArray<Planned<T>>): Array<Planned<T>> {
  return planned.filter(({ action }) => action === 'replace')
}

export interface ImportPlan {
  settings: Array<Planned<string>>
  categories: Array<Planned<Label>>
  tags: Array<Planned<Label>>
  projects: Array<Planned<Project>>
  logSources: Array<Planned<LogSourceRecord>>
  /** Variables to write for created and replaced projects. Every other variable stays. */
  variables: PackedVariable[]
  notificationTargets: Array<Planned<NotificationTarget>>
  deployments: Array<Planned<GivenDeployment>>
  /** Sentences on what was changed in a record, or ignored. */
  notes: string[]
}

interface PlanNeeds {
  records: PackageRecords
  settings: SettingsPlan
  strategy: Strategy
  /** Whether settings and targets that control access are imported, too. */
  withAccess: boolean
  /** The data directory, which no target may overlap. */
  home: string
  allowSystemPaths: boolean | undefined
  hasRunning(projectId: string): boolean
  /** Why svc cannot take on the rights of a project on this machine, by its id. */
  rightsFaults: ReadonlyMap<string, Refusal>
  logSources?: LogSourceTable | undefined
}

/**
 * Plans an import. Refuses 400 for a path that cannot be a target, or a reference to a missing project; 409 for a
 * conflict with an existing record.
 */
export function planImport(db: Reader, needs: PlanNeeds): ImportPlan {
  const { records, strategy } = needs
  const notes: string[] = []
  const known = strategy === 'overwrite' ? 'replace' : 'skip'
  const actionOf = (isKnown: boolean): Action => (isKnown ? known : 'create')
  const kept = readSettings(db)
  const categories = planLabels(db, { kind: 'category', labels: records.categories, known })
  const tags = planLabels(db, { kind: 'tag', labels: records.tags, known })
  const existing = listProjects(db)
  const existingIds = new Set(existing.map(({ id }) => id))
  const projects = records.projects.map(project => {
    const record = withReferences(db, project, { categories: categories.ids, tags: tags.ids, notes })
    return { id: project.id, action: actionOf(existingIds.has(project.id)), record }
  })
  giveFreeNames(projects, existing, notes)
  checkProjects(db, { needs, planned: projects, existing })
  const projectIds = new Set([...existingIds, ...projects.map(({ id }) => id)])
  checkReferences(
    packageFiles.deployments,
    records.deployments.map(({ row }) => row),
    projectIds
  )
  checkReferences(packageFiles.variables, records.variables, projectIds)
  checkReferences(packageFiles.logSources, records.logSources, projectIds)
  notes.push(...notesOnSettings(needs.settings), ...notesOnHeaders(projects, existing))
  if (!needs.withAccess && records.notificationTargets.length > 0) notes.push(targetsLeftOut)
  const { logSources } = needs
  if (logSources === undefined && records.logSources.length > 0)
    notes.push('Log sources were ignored: this server does not support them')
  return {
    settings: [
      ...[...needs.settings.taken].map(([key, value]) => ({
        id: key,
        action: actionOf(Object.hasOwn(kept, key)),
        record: value
      })),
      ...needs.settings.leftOut.map(key => ({ id: key, action: 'skip' as const, record: '' }))
    ],
    categories: categories.planned,
    tags: tags.planned,
    projects,
    logSources:
      logSources === undefined
        ? []
        : records.logSources.map(record => {
            return { id: record.id, action: actionOf(logSources.find(db, record.id) !== undefined), record }
          }),
    variables: planVariables(db, { projects, variables: records.variables, notes }),
    notificationTargets: records.notificationTargets.map(record => {
      const isKnown = findNotificationTarget(db, record.id) !== undefined
      return { id: record.id, action: needs.withAccess ? actionOf(isKnown) : 'skip', record }
    }),
    deployments: planDeployments(db, records.deployments, known),
    notes
  }
}

/**
 * Settings that are always imported. Every other one, also one that is added to svc later, controls access (tokens,
 * addresses, scripts of clients, targets of notifications) and is imported only on request.
 */
const ordinarySettings = new Set([
  'webhook_events',
  'default_deploy_path',
  'max_upload_size',
  'max_extracted_size',
  'keep_archives',
  'keep_undo',
  'script_timeout'
])

/**
 * Divides a package's settings. Those left out are not even checked. `known` are the keys of this server's settings.
 */
export function divideSettings(
  given: Readonly<Record<string, unknown>>,
  { known, withAccess }: { known: ReadonlySet<string>; withAccess: boolean }
): { wanted: Record<string, unknown>; leftOut: string[]; unknown: string[] } {
  const keys = Object.keys(given)
  const isWanted = (key: string): boolean => withAccess || ordinarySettings.has(key)
  return {
    wanted: Object.fromEntries(keys.filter(key => known.has(key) && isWanted(key)).map(key => [key, given[key]])),
    leftOut: keys.filter(key => known.has(key) && !isWanted(key)),
    unknown: keys.filter(key => !known.has(key))
  }
}

const targetsLeftOut =
  'The notification targets were left out, because messages would be sent to their addresses. Import them with "svc import --with-access-settings" (API: accessSettings=true)'

function notesOnSettings({ leftOut, unknown, refused }: SettingsPlan): string[] {
  const names = leftOut.map(key => `"${key}"`).join(', ')
  const why = 'they control access. Import them with "svc import --with-access-settings" (API: accessSettings=true)'
  return [
    ...(leftOut.length === 0 ? [] : [`The settings ${names} were left out: ${why}`]),
    ...refused,
    ...unknown.map(key => `The setting "${oneLine(key)}" was ignored: it is unknown here`)
  ]
}

function planLabels(
  db: Reader,
  { kind, labels, known }: { kind: LabelKind; labels: Label[]; known: 'replace' | 'skip' }
): { planned: Array<Planned<Label>>; ids: Map<string, string> } {
  const ids = new Map<string, string>()
  const planned = labels.map((label): Planned<Label> => {
    const same = findLabel(db, kind, label.id)
    const named = findLabelByName(db, kind, label.name)
    if (same !== undefined && known === 'replace' && named !== undefined && named.id !== label.id) {
      const sentence = `The ${kind} "${label.name}" (${label.id}) cannot be imported: "${named.id}" already has that name`
      throw new Refusal('conflict', 'name_taken', sentence)
    }
    const here = same ?? named
    ids.set(label.id, here?.id ?? label.id)
    return { id: here?.id ?? label.id, action: here === undefined ? 'create' : known, record: label }
  })
  return { planned, ids }
}

interface VariablesInQuestion {
  projects: ImportPlan['projects']
  variables: readonly PackedVariable[]
  notes: string[]
}

/**
 * Plans the variables. A secret that exists here keeps its value; any other secret has to be set, and a note says so.
 */
function planVariables(db: Reader, { projects, variables, notes }: VariablesInQuestion): PackedVariable[] {
  return projects
    .filter(({ action }) => action !== 'skip')
    .flatMap(({ id, record }) => {
      const secrets = new Set(
        listVariables(db, id)
          .filter(({ secret }) => secret)
          .map(({ name }) => name)
      )
      const written = variables.filter(({ projectId, name }) => projectId === id && !secrets.has(name))
      const needed = written.filter(({ secret }) => secret).map(({ name }) => name)
      if (needed.length > 0) {
        const why =
          'a package never contains the value of a secret. Set them with "svc env set", or in the settings of the project'
        notes.push(`"${record.name}" (${id}) needs the secrets ${needed.join(', ')}: ${why}`)
      }
      return written
    })
}

/** A package does not contain the header values of checks. Those that exist here stay. */
function notesOnHeaders(projects: ImportPlan['projects'], existing: readonly Project[]): string[] {
  return changed(projects).flatMap(({ id, record }) => {
    const here = new Set(
      hiddenHeaders(
        existing.find(project => project.id === id),
        () => true
      )
    )
    const needed = hiddenHeaders(record, value => value === hiddenValue).filter(name => !here.has(name))
    if (needed.length === 0) return []
    const why = 'a package never contains the value of a secret. Set them in the policy of the project'
    return [`"${record.name}" (${id}) needs the headers ${[...new Set(needed)].join(', ')} of its checks: ${why}`]
  })
}

function hiddenHeaders(project: Project | undefined, isWanted: (value: string) => boolean): string[] {
  const checks = project?.policy.gate?.after ?? []
  return checks.flatMap(check => {
    const header = 'http' in check ? (check.header ?? {}) : {}
    return Object.entries(header).flatMap(([name, value]) => (isWanted(value) ? [name] : []))
  })
}

interface References {
  categories: Map<string, string>
  tags: Map<string, string>
  notes: string[]
}

/**
 * Returns the project with the ids of its labels on this server. A label that does not exist is removed, with a note.
 */
function withReferences(db: Reader, project: Project, { categories, tags, notes }: References): Project {
  const here = (kind: LabelKind, map: Map<string, string>, id: string): string[] => {
    const found = map.get(id) ?? findLabel(db, kind, id)?.id
    if (found !== undefined) return [found]
    notes.push(`"${project.name}" (${project.id}) loses the ${kind} "${id}": it exists neither here nor in the package`)
    return []
  }
  return {
    ...project,
    categoryId: project.categoryId === null ? null : (here('category', categories, project.categoryId)[0] ?? null),
    tagIds: [...new Set(project.tagIds.flatMap(id => here('tag', tags, id)))]
  }
}

/**
 * Gives a project another name if one here, or an earlier one of the package, has its name: `shop (2)`. A project that
 * keeps the name that it has here stays as it is.
 */
function giveFreeNames(planned: ReadonlyArray<Planned<Project>>, existing: readonly Project[], notes: string[]): void {
  const written = planned.filter(({ action }) => action !== 'skip')
  const ids = new Set(written.map(({ id }) => id))
  const byId = new Map(existing.map(project => [project.id, project]))
  const taken = new Set(existing.filter(({ id }) => !ids.has(id)).map(({ name }) => nameKey(name)))
  for (const { id, record } of written) {
    const given = record.name
    const isKept = isSameName(byId.get(id)?.name ?? '', given)
    for (let n = 2; !isKept && taken.has(nameKey(record.name)); n++) record.name = numbered(given, n)
    taken.add(nameKey(record.name))
    if (record.name !== given)
      notes.push(`"${given}" (${id}) is imported as "${record.name}": another project has its name`)
  }
}

function numbered(name: string, n: number): string {
  const end = ` (${n})`
  // No half of a character at the cut.
  return `${name.slice(0, maxNameLength - end.length).replace(/[\ud800-\udbff]$/, '')}${end}`
}

interface ProjectsInQuestion {
  needs: PlanNeeds
  planned: Array<Planned<Project>>
  existing: Project[]
}

/** Paths and tokens belong to one project each. The refusal lists every conflict at once. */
function checkProjects(db: Reader, { needs, planned, existing }: ProjectsInQuestion): void {
  const replaced = new Set(planned.filter(({ action }) => action === 'replace').map(({ id }) => id))
  const byId = new Map(existing.map(project => [project.id, project]))
  const taken = createTargetPlaces().among(existing.filter(({ id }) => !replaced.has(id)))
  const tokens = new Map<string, string>()
  const clashes: string[] = []
  for (const [index, { id, action, record }] of planned.entries()) {
    if (action === 'skip') continue
    record.deployPath = checkedPath(record.deployPath, index, needs)
    const fault = needs.rightsFaults.get(id)
    if (fault !== undefined) throw asPart(fault, `${packageFiles.projects}[${index}].${fault.field ?? 'runAs'}`)
    const was = byId.get(id)
    if (was !== undefined && was.deployPath !== record.deployPath && needs.hasRunning(id)) {
      clashes.push(`"${was.name}" (${id}) has a deployment queued or running, so its deployPath cannot be changed`)
    }
    const other = taken.overlapping(record.deployPath)
    taken.add(record)
    if (other !== undefined) {
      clashes.push(
        `"${record.name}" (${id}) would deploy to "${record.deployPath}", but "${other.name}" (${other.id}) deploys to "${other.deployPath}"`
      )
    }
    if (record.token === '') continue
    const holder = tokens.get(record.token) ?? findProjectByToken(db, record.token)?.id ?? id
    if (holder !== id) clashes.push(`"${record.name}" (${id}) and "${holder}" have the same deploy token`)
    tokens.set(record.token, id)
  }
  if (clashes.length === 0) return
  const sentence = `The package cannot be imported: ${clashes.join('; ')}. Nothing was changed. Change one of the projects, or export without it (svc export --projects)`
  throw new Refusal('conflict', 'clashing_projects', sentence, { field: packageFiles.projects })
}

function checkedPath(path: string, index: number, { home, allowSystemPaths }: PlanNeeds): string {
  try {
    return checkDeployPath(path, { home, allowSystemPaths })
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw asPart(error, `${packageFiles.projects}[${index}].deployPath`)
  }
}

function asPart(cause: Refusal, field: string): Refusal {
  return new Refusal(cause.kind, cause.code, `${field} cannot be imported: ${cause.message}`, { field, cause })
}

function checkReferences(file: string, records: ReadonlyArray<{ projectId: string }>, projectIds: Set<string>): void {
  const index = records.findIndex(({ projectId }) => !projectIds.has(projectId))
  if (index === -1) return
  const field = `${file}[${index}].projectId`
  throw invalid(
    field,
    `${field} cannot be imported: the project "${records[index]?.projectId}" exists neither here nor in the package`
  )
}

function planDeployments(
  db: Reader,
  deployments: GivenDeployment[],
  known: 'replace' | 'skip'
): Array<Planned<GivenDeployment>> {
  return deployments.map(record => {
    const { id, projectId } = record.row
    const here = findDeployment(db, id)
    const isBusy = here?.status === 'queued' || here?.status === 'running'
    if (here !== undefined && known === 'replace' && (isBusy || here.projectId !== projectId)) {
      const why = isBusy ? `it is ${here.status}` : `it belongs to the project "${here.projectId}"`
      throw new Refusal('conflict', 'deployment_in_use', `The deployment "${id}" cannot be replaced: ${why}`)
    }
    return { id, action: here === undefined ? 'create' : known, record }
  })
}
