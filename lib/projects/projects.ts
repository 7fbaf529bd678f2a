import { type Clock, instantOf } from '../base/clock.js'
import type { Ids } from '../base/digests.js'
import { invalid, nameTaken, notFound, Refusal } from '../base/errors.js'
import { present } from '../base/fields.js'
import { writeChanges } from '../base/shared/audit.js'
import type { Actor, AuditEvent } from '../model/audit.js'
import { beyondDefaults, changes, type Readers } from '../model/readers.js'
import type { DeploymentRow, DeploymentStatus, FinalStatus, RanScript } from '../model/deployment.js'
import { changePolicy, type GivenPolicy, type PolicyChanges, policyOf } from '../model/policy.js'
import type { ProjectScope } from '../model/access.js'
import {
  type Label,
  type LabelColor,
  isSameName,
  labelColors,
  type LabelKind,
  newProject,
  type NewProject,
  type Project,
  type ProjectFields,
  projectReaders,
  type RecentScripts,
  type BulkAction,
  type BulkOutcome
} from '../model/project.js'
import { checkSeen, type Seen } from '../model/setting.js'
import { checkRights } from '../core/proc/identity.js'
import type { Reader, Store, Transaction } from '../core/store/database.js'
import { keepReads } from '../core/store/live-memory.js'
import { deleteDeploymentsOf, deploymentIdsOf, goingDeploymentId } from '../core/store/tables/deployments.js'
import { listPlacements } from '../core/store/tables/fleet.js'
import {
  deleteLabel,
  deleteProject,
  findLabel,
  findLabelByName,
  findProject,
  insertLabel,
  insertProject,
  keepProjects,
  listLabels,
  updateLabel,
  updateProject,
  findMaintenance
} from '../core/store/tables/projects.js'
import { checkDeployPath } from '../core/install/guard.js'
import { createTargetPlaces } from '../core/install/overlap.js'
import { applyToEach } from '../base/async.js'
import type { CheckHeaders } from './seal.js'

/** Nodes that a warning names. */
const maxNamedNodes = 3

interface Needs {
  store: Store
  clock: Clock
  ids: Ids
  audit: { within(tx: Transaction, event: AuditEvent): void }
  /** The data directory. No target may overlap with it. */
  home: string
  /** See `TargetRules`. */
  allowSystemPaths?: boolean | undefined
  deployments: {
    hasRunning(projectId: string): boolean
    /** Results that are not in the database yet (deploy/record.ts), in order. */
    kept(): ReadonlyArray<{ projectId: string; status: DeploymentStatus }>
    removeWith(deployIds: readonly string[], work: () => Promise<string[]>): Promise<void>
    /** Removes the list of the files that svc put into the target. */
    removeTree(projectId: string): Promise<void>
  }
  /** Seals and opens the header values of checks. */
  headers: Pick<CheckHeaders, 'sealer' | 'open'>
}

/** The projects of a server. Every change is audited. */
export class Projects {
  readonly #needs: Needs
  readonly #find: (id: string) => Project | undefined
  readonly #all: () => readonly Project[]
  readonly #targets = createTargetPlaces()

  constructor(needs: Needs) {
    this.#needs = needs
    this.#find = keepReads(needs.store, id => findProject(needs.store, id))
    this.#all = keepProjects(needs.store)
  }

  /** Returns the projects, newest first. With `tagIds`, only those that have all of these tags. */
  list({ tagIds = [], scope }: { tagIds?: string[]; scope?: ProjectScope } = {}): Project[] {
    const seen = scope == null ? this.#all() : this.#all().filter(({ id }) => scope.includes(id))
    return this.#current(seen).filter(project => tagIds.every(id => project.tagIds.includes(id)))
  }

  /** Returns one project. Refuses: 404. */
  get(id: string): Project {
    return this.#current([found(this.#find(id), id)])[0] as Project
  }

  /** Refuses: 400 if the path is not allowed or a label is unknown, 409 if another project has the path or the name. */
  async create(given: NewProject, actor: Actor): Promise<Project> {
    const { headers, store, ids, clock, audit } = this.#needs
    await checkChangedRights(given, null)
    const sealed = await headers.sealer([given.policy])
    return store.write(tx => {
      const fields = this.#checked(tx, given)
      this.#checkPathIsFree(fields.deployPath)
      this.#checkNameIsFree(fields.name)
      const made = newProject(fields, { id: ids.id('proj_'), token: ids.token(), at: instantOf(clock) })
      const project = { ...made, policy: sealed(made.policy, { projectId: made.id, before: {} }) }
      insertProject(tx, project)
      audit.within(tx, createdEvent(tx, project, actor))
      return existing(tx, project.id)
    })
  }

  /** Refuses: as `create`, 404, 409 if the path would change during a deployment or a maintenance, 412 `changed_since`. */
  async update(id: string, given: ProjectFields & Seen, actor: Actor): Promise<Project> {
    return this.#change(id, given, { actor, mayShareName: false })
  }

  /** Returns which nodes of a project keep another directory than its own; null: none does. */
  keptPlaces(id: string): string | null {
    const { deployPath } = existing(this.#needs.store, id)
    const others = listPlacements(this.#needs.store, { projectId: id }).filter(each => each.deployPath !== deployPath)
    if (others.length === 0) return null
    const named = others.slice(0, maxNamedNodes).map(each => `"${each.nodeName}" keeps "${each.deployPath}"`)
    const more = others.length > named.length ? `, and ${others.length - named.length} more keep theirs` : ''
    return `Only nodes on which the project is placed from now on use this directory: ${named.join(', ')}${more}. To move it there: svc fleet unplace, then svc fleet place`
  }

  async #change(
    id: string,
    { seen, ...given }: ProjectFields & Seen,
    { actor, mayShareName }: { actor: Actor; mayShareName: boolean }
  ): Promise<Project> {
    const { headers, store, deployments, clock, audit } = this.#needs
    await checkChangedRights(given, found(this.#find(id), id))
    const sealed = await headers.sealer([given.policy])
    return store.write(tx => {
      const before = existing(tx, id)
      checkSeen({ seen }, before.updatedAt, 'The project')
      const { policy, ...rest } = present(this.#checked(tx, given))
      const place = { projectId: id, before: before.policy }
      const fields =
        policy === undefined ? rest : { ...rest, policy: changePolicy(before.policy, sealed(policy, place)) }
      if (fields.deployPath !== undefined && fields.deployPath !== before.deployPath) {
        this.#checkPathIsFree(fields.deployPath, id)
        if (deployments.hasRunning(id)) throw busy(tx, 'Cannot change the deployPath', id)
        if (findMaintenance(tx, id) !== undefined) throw inMaintenance(before.name)
      }
      // Earlier versions let several projects have one name. It stays valid until it changes.
      const isNew = fields.name !== undefined && !isSameName(fields.name, before.name)
      if (isNew && !mayShareName) this.#checkNameIsFree(fields.name as string)
      updateProject(tx, id, { ...fields, updatedAt: instantOf(clock) })
      const changed = changes(audited(tx, before), audited(tx, { ...before, ...fields }), projectReaders)
      const detail = writeChanges(before.name, changed)
      if (changed.length > 0) audit.within(tx, { action: 'project.update', actor, projectId: id, target: id, detail })
      return existing(tx, id)
    })
  }

  /**
   * Makes a project of the hub of a fleet one of this node, with the same id, or brings its fields up to date. Writes
   * nothing if nothing has changed. Its name may be that of a project of this node: who pushes to the hub knows nothing
   * of it. Refuses: as `create` and `update` otherwise.
   */
  async adopt(id: string, fields: NewProject, actor: Actor): Promise<Project> {
    const { headers, store, ids, clock, audit } = this.#needs
    const known = this.#find(id)
    if (known !== undefined) {
      const { policy = {}, ...rest } = present(fields) as ProjectFields
      const changed = Object.entries(rest).filter(([name, value]) => isOther(known[name as keyof Project], value))
      // Values that cannot be read any more are written again.
      const before = await headers.open(id, known.policy).catch(() => null)
      const isSamePolicy = before !== null && !isOther(before, changePolicy({}, policy))
      if (changed.length === 0 && isSamePolicy) return known
      const change = { ...Object.fromEntries(changed), policy: replacing(known.policy, policy) }
      return this.#change(id, change, { actor, mayShareName: true })
    }
    await checkChangedRights(fields, null)
    const sealed = await headers.sealer([fields.policy])
    return store.write(tx => {
      const checkedFields = this.#checked(tx, fields)
      this.#checkPathIsFree(checkedFields.deployPath)
      const made = newProject(checkedFields, { id, token: ids.token(), at: instantOf(clock) })
      const project = { ...made, policy: sealed(made.policy, { projectId: id, before: {} }) }
      insertProject(tx, project)
      audit.within(tx, createdEvent(tx, project, actor))
      return existing(tx, id)
    })
  }

  /**
   * Removes records, archives and outputs, but nothing under deployPath. Refuses: 404, 409 during a deployment, and if another
   * project takes releases of it only.
   */
  async remove(id: string, actor: Actor): Promise<void> {
    const { deployments, store, audit } = this.#needs
    await deployments.removeWith(deploymentIdsOf(store, id), () =>
      store.write(tx => {
        const project = existing(tx, id)
        if (deployments.hasRunning(id)) throw busy(tx, 'Cannot delete the project', id)
        const taking = this.#all().find(each => each.policy.promoteFrom?.projectId === id && each.id !== id)
        if (taking !== undefined) throw promotedFrom(project, taking)
        deleteProject(tx, id)
        const removed = deleteDeploymentsOf(tx, id)
        audit.within(tx, { action: 'project.delete', actor, projectId: id, target: id, detail: project.name })
        return removed
      })
    )
    await deployments.removeTree(id)
  }

  /** Creates a new deploy token. The old one becomes invalid. Refuses: 404. */
  async regenerateToken(id: string, actor: Actor): Promise<string> {
    const { ids, store, clock, audit } = this.#needs
    const token = ids.token()
    await store.write(tx => {
      const before = existing(tx, id)
      updateProject(tx, id, { token, updatedAt: instantOf(clock) })
      const detail = writeChanges(before.name, changes(before, { ...before, token }, projectReaders))
      audit.within(tx, { action: 'project.regenerate_token', actor, projectId: id, target: id, detail })
    })
    return token
  }

  /** Returns the projects with the status of results that are not recorded yet. */
  #current(projects: readonly Project[]): readonly Project[] {
    const kept = new Map(
      this.#needs.deployments.kept().map(({ projectId, status }) => [projectId, status as FinalStatus])
    )
    if (kept.size === 0) return projects
    return projects.map(project => {
      const status = kept.get(project.id)
      return status === undefined || this.#needs.deployments.hasRunning(project.id) ? project : { ...project, status }
    })
  }

  /** Checks the fields and returns them as they are stored. */
  #checked<F extends ProjectFields>(db: Reader, fields: F): F {
    checkReferences(db, fields)
    const { deployPath, pm2AppName, allowedEnv, tagIds } = fields
    return {
      ...fields,
      ...(deployPath === undefined
        ? {}
        : {
            deployPath: checkDeployPath(deployPath, {
              home: this.#needs.home,
              allowSystemPaths: this.#needs.allowSystemPaths
            })
          }),
      ...(pm2AppName === '' ? { pm2AppName: null } : {}),
      ...(allowedEnv === undefined ? {} : { allowedEnv: [...new Set(allowedEnv)] }),
      ...(tagIds === undefined ? {} : { tagIds: [...new Set(tagIds)] })
    }
  }

  /** Commands name projects, so a name must mean one. */
  #checkNameIsFree(name: string): void {
    const other = this.#all().find(project => isSameName(project.name, name))
    if (other !== undefined) throw nameTaken(name, { kind: 'project', id: other.id, name: other.name })
  }

  #checkPathIsFree(deployPath: string, ownId?: string): void {
    const other = this.#targets.among(this.#all()).overlapping(deployPath, ({ id }) => id !== ownId)
    if (other === undefined) return
    const sentence = `Cannot deploy to "${deployPath}": the project "${other.name}" deploys to "${other.deployPath}"`
    throw new Refusal('conflict', 'path_taken', sentence, {
      field: 'deployPath',
      other: { kind: 'project', id: other.id, name: other.name }
    })
  }
}

/** Checks that svc can take on changed rights on this machine. `before` is the current project. */
async function checkChangedRights(given: ProjectFields, before: Project | null): Promise<void> {
  if (given.runAs === undefined && given.umask === undefined) return
  const runAs = given.runAs === undefined ? (before?.runAs ?? null) : given.runAs
  const umask = given.umask === undefined ? (before?.umask ?? null) : given.umask
  await checkRights({ runAs, umask })
}

function existing(db: Reader, id: string): Project {
  return found(findProject(db, id), id)
}

function found(project: Project | undefined, id: string): Project {
  if (project === undefined) throw notFound('Project', id)
  return project
}

function checkReferences(db: Reader, { categoryId, tagIds }: ProjectFields): void {
  if (categoryId && findLabel(db, 'category', categoryId) === undefined) {
    throw invalid('categoryId', `"categoryId" is "${categoryId}": there is no such category`)
  }
  const unknown = tagIds?.find(tagId => findLabel(db, 'tag', tagId) === undefined)
  if (unknown !== undefined) throw invalid('tagIds', `"tagIds" contains "${unknown}": there is no such tag`)
}

function isOther(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) !== JSON.stringify(b)
}

/** Returns a project as its audit entries show it: with the whole policy, and labels by their names. */
function audited(db: Reader, project: Project): Partial<Project> {
  const nameOf = (kind: LabelKind, id: string): string => findLabel(db, kind, id)?.name ?? id
  return {
    ...project,
    policy: policyOf(project),
    categoryId: project.categoryId && nameOf('category', project.categoryId),
    tagIds: project.tagIds.map(id => nameOf('tag', id)).sort()
  }
}

function createdEvent(db: Reader, project: Project, actor: Actor): AuditEvent {
  const { id, name, token, createdAt } = project
  const usual = newProject({ name, deployPath: '' }, { id, token, at: createdAt })
  const detail = writeChanges(name, beyondDefaults(audited(db, usual), audited(db, project), projectReaders))
  return { action: 'project.create', actor, projectId: id, target: id, detail }
}

/** Returns the change that makes a policy another one: keys that it does not set get their default. */
function replacing(before: PolicyChanges, policy: GivenPolicy): GivenPolicy {
  return { ...Object.fromEntries(Object.keys(before).map(key => [key, null])), ...policy }
}

function busy(db: Reader, what: string, id: string): Refusal {
  const sentence = `${what}: a deployment of "${id}" is queued or running. Wait for its end, or cancel it`
  const deployId = goingDeploymentId(db, id)
  return new Refusal('conflict', 'deployment_running', sentence, {
    other: deployId === undefined ? undefined : { kind: 'deployment', id: deployId }
  })
}

function inMaintenance(name: string): Refusal {
  const sentence =
    `Cannot change the deployPath: project ${name} is in maintenance, with a file in the present target. ` +
    'Turn the maintenance off first'
  return new Refusal('conflict', 'maintenance_on', sentence)
}

function promotedFrom({ name }: Project, { id, name: taking }: Project): Refusal {
  const sentence =
    `Cannot delete the project "${name}": "${taking}" takes releases of it only. ` +
    'Change the policy promoteFrom of that project first'
  return new Refusal('conflict', 'promotion_source', sentence, { other: { kind: 'project', id, name: taking } })
}

type BulkNeeds = Pick<Projects, 'get' | 'update' | 'remove'>

export async function applyToProjects(
  projects: BulkNeeds,
  { action, ids, actor }: { action: BulkAction; ids: string[]; actor: Actor }
): Promise<BulkOutcome> {
  return applyToEach(ids, operationOf(projects, action, actor))
}

function operationOf(
  projects: BulkNeeds,
  { action, categoryId, tagIds, allowClientScripts }: BulkAction,
  actor: Actor
): (id: string) => Promise<unknown> {
  if (action === 'delete') return id => projects.remove(id, actor)
  if (action === 'setCategory') return id => projects.update(id, { categoryId }, actor)
  if (action === 'setClientScripts') {
    if (allowClientScripts === undefined) throw missing('allowClientScripts', action)
    return id => projects.update(id, { allowClientScripts }, actor)
  }
  if (tagIds === undefined) throw missing('tagIds', action)
  return id => {
    const had = projects.get(id).tagIds
    const tags = action === 'addTags' ? [...had, ...tagIds] : had.filter(tagId => !tagIds.includes(tagId))
    return projects.update(id, { tagIds: tags }, actor)
  }
}

function missing(field: string, action: string): Refusal {
  return invalid(field, `"${field}" is missing: "${action}" requires it`)
}

/** The fields of a label that a client can set. */
export interface LabelFields {
  name?: string | undefined
  /** Null, as if it were absent: the first unused colour of a new label, the present one of another. */
  color?: LabelColor | null | undefined
  sortOrder?: number | undefined
}

/** Categories or tags (§2.6). Both have the same rules and different tables. */
export type Labels = ReturnType<typeof createLabels>

interface LabelNeeds {
  store: Store
  clock: Clock
  ids: Pick<Ids, 'id'>
  audit: { within(tx: Transaction, event: AuditEvent): void }
}

/** What the audit entries of a label show. */
export type AuditedLabel = Pick<Label, 'name' | 'color' | 'sortOrder'>

/** Who reads it. */
export const labelReaders: Readers<AuditedLabel> = {
  fields: { name: 'everybody', color: 'everybody', sortOrder: 'everybody' }
}

/** Creates the labels of one kind. */
export function createLabels(kind: LabelKind, { store, clock, ids, audit }: LabelNeeds) {
  const noun = kind === 'category' ? 'Category' : 'Tag'

  function existing(db: Reader, id: string): Label {
    const label = findLabel(db, kind, id)
    if (label === undefined) throw notFound(noun, id)
    return label
  }

  function checkName(db: Reader, name: string, ownId?: string): void {
    const other = findLabelByName(db, kind, name)
    if (other === undefined || other.id === ownId) return
    throw nameTaken(name, { kind, id: other.id, name: other.name })
  }

  return {
    /** Returns the labels ordered by `sortOrder`, then by name; with a scope, those of its projects. */
    list: (scope?: ProjectScope): Label[] => listLabels(store, kind, scope),

    /** The default colour is the first unused one. Refuses: 409 `name_taken`. */
    create: (fields: LabelFields & { name: string }, actor: Actor): Promise<Label> =>
      store.write(tx => {
        checkName(tx, fields.name)
        const label: Label = {
          id: ids.id(kind === 'category' ? 'cat_' : 'tag_'),
          name: fields.name,
          color: fields.color ?? unusedColor(listLabels(tx, kind)),
          sortOrder: fields.sortOrder ?? 0,
          projectCount: 0,
          createdAt: instantOf(clock),
          updatedAt: instantOf(clock)
        }
        insertLabel(tx, kind, label)
        const detail = writeChanges(
          label.name,
          beyondDefaults<AuditedLabel>({ ...label, sortOrder: 0 }, label, labelReaders)
        )
        audit.within(tx, { action: `${kind}.create`, actor, target: label.id, detail })
        return label
      }),

    /** Refuses: 404, 409 `name_taken`, 412 `changed_since`. */
    update: (id: string, fields: LabelFields & Seen, actor: Actor): Promise<Label> =>
      store.write(tx => {
        const before = existing(tx, id)
        checkSeen(fields, before.updatedAt, `The ${kind}`)
        if (fields.name !== undefined) checkName(tx, fields.name, id)
        const label = {
          id,
          name: fields.name ?? before.name,
          color: fields.color ?? before.color,
          sortOrder: fields.sortOrder ?? before.sortOrder,
          updatedAt: instantOf(clock)
        }
        updateLabel(tx, kind, label)
        const changed = changes<AuditedLabel>(before, label, labelReaders)
        const detail = writeChanges(before.name, changed)
        if (changed.length > 0) audit.within(tx, { action: `${kind}.update`, actor, target: id, detail })
        return existing(tx, id)
      }),

    /** Removes a label. Resolves with the number of projects that had it. Refuses: 404. */
    remove: (id: string, actor: Actor): Promise<number> =>
      store.write(tx => {
        const { name } = existing(tx, id)
        const projects = deleteLabel(tx, kind, id)
        audit.within(tx, { action: `${kind}.delete`, actor, target: id, detail: name })
        return projects
      })
  }
}

function unusedColor(labels: Label[]): LabelColor {
  return labelColors.find(color => labels.every(label => label.color !== color)) ?? labelColors[0]
}

/** Returns the scripts of the last deployment that ran any. `deployments` is ordered newest first. */
export function recentScripts(deployments: readonly DeploymentRow[]): RecentScripts {
  const latest = deployments.find(({ scripts }) => scripts.some(({ step }) => step !== 'onFailure'))
  const scriptOf = (step: RanScript['step']) => latest?.scripts.find(ran => ran.step === step)?.script ?? ''
  return {
    deployId: latest?.id ?? null,
    preDeployScript: scriptOf('preDeploy'),
    postDeployScript: scriptOf('postDeploy')
  }
}
