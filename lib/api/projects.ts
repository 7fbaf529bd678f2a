import { invalid } from '../base/refusal.js'
import { expectedTags } from '../http/core/conditional.js'
import type { ProjectScope } from '../model/access.js'
import { json } from '../http/core/route.js'
import type { Actor } from '../model/audit.js'
import { bulkActions } from '../model/bulk.js'
import type { BulkAction, BulkOutcome } from '../model/bulk.js'
import { allowedEnvFault, maxAllowedEnv } from '../model/client-env.js'
import { givenPolicy } from '../model/policy-keys.js'
import { maxDiskMbLimit } from '../model/project.js'
import {
  maxScriptTimeoutSeconds,
  normalDirectory,
  scriptDirectoryFault,
  scriptShellFault
} from '../model/script-settings.js'
import type { Project, RecentScripts } from '../model/project.js'
import type { NewProject, ProjectFields } from '../projects/projects.js'
import {
  flag,
  integer,
  line,
  list,
  maxNameLength,
  maxPathLength,
  maxScriptLength,
  multiline,
  name,
  nullable,
  oneOf,
  optional,
  readFields,
  reads
} from '../base/fields.js'
import { queryText } from './query.js'
import type { Read } from '../base/fields.js'
import { shownProject } from './masks.js'
import type { Handler } from './route.js'
import { param } from './route.js'

const id = line({ min: 1, max: 100 })
const ids = list(id, { max: 200 })
const emptyIsNull = (given: string | null | undefined) => (given === '' ? null : given)

const variable: Read<string> = reads({ type: 'string' }, 'NODE_ENV', (value, field) => {
  const given = line()(value, field)
  const fault = allowedEnvFault(given)
  if (fault !== null) throw invalid(field, `"${field}" cannot be "${given}": it ${fault}`)
  return given
})

/** Reads a short text. An empty text becomes null. */
const short = nullable(line({ max: 100, trim: true }))
const emptied: Read<string | null> = Object.assign((value: unknown, field: string) => short(value, field) || null, {
  schema: short.schema,
  example: null,
  isOptional: true
})

/** Reads a text that may be null. An empty text becomes null; `faultOf` checks any other. */
function ruled(faultOf: (given: string) => string | null): Read<string | null> {
  const read = nullable(multiline({ max: maxPathLength, trim: true }))
  return reads(read.schema, null, (value, field) => {
    const given = read(value, field) || null
    const fault = given === null ? null : faultOf(given)
    if (fault !== null) throw invalid(field, `"${field}" cannot be ${JSON.stringify(given)}: it ${fault}`)
    return given
  })
}

const scriptShell = ruled(scriptShellFault)
const scriptDirectoryGiven = ruled(scriptDirectoryFault)
const scriptDirectory: Read<string | null> = reads(scriptDirectoryGiven.schema, null, (value, field) => {
  const given = scriptDirectoryGiven(value, field)
  return given === null ? null : normalDirectory(given)
})

/** The writable fields of a project, all optional, as in `PUT /api/projects/:id`. */
export const projectFields = {
  name: optional(name),
  deployPath: optional(line({ min: 1, max: maxPathLength })),
  description: optional(multiline()),
  env: optional(line({ max: maxNameLength, trim: true })),
  categoryId: optional(nullable(line({ max: 100 }))),
  pm2AppName: optional(nullable(line({ max: maxNameLength, trim: true }))),
  tagIds: optional(ids),
  preDeployScript: optional(multiline({ max: maxScriptLength })),
  postDeployScript: optional(multiline({ max: maxScriptLength })),
  postDeployAsync: optional(flag),
  allowClientScripts: optional(nullable(flag)),
  allowedEnv: optional(list(variable, { max: maxAllowedEnv })),
  runAs: optional(emptied),
  umask: optional(emptied),
  scriptTimeoutSeconds: optional(nullable(integer(1, maxScriptTimeoutSeconds))),
  scriptShell: optional(scriptShell),
  scriptDirectory: optional(scriptDirectory),
  maxDiskMb: optional(nullable(integer(1, maxDiskMbLimit))),
  policy: optional(givenPolicy),
  pinned: optional(flag)
}
/** Fields of a new project: `name` and `deployPath` are required. */
export const newProjectFields = { ...projectFields, name, deployPath: line({ min: 1, max: maxPathLength }) }

/** Fields of `PUT /api/projects/:id/pin`. */
export const pinFields = { pinned: flag }

/** Fields of `POST /api/projects/bulk`. */
export const bulkFields = {
  ids: list(id, { min: 1, max: 200 }),
  action: oneOf(bulkActions),
  categoryId: nullable(id),
  tagIds: optional(ids)
}

/** Dependencies of the handlers of projects. */
export interface ProjectsNeeds {
  projects: {
    list(filter: { tagIds: string[]; scope: ProjectScope }): Project[]
    get(id: string): Project
    create(fields: NewProject, actor: Actor): Promise<Project>
    update(id: string, fields: ProjectFields, actor: Actor): Promise<Project>
    remove(id: string, actor: Actor): Promise<void>
    regenerateToken(id: string, actor: Actor): Promise<string>
  }
  bulk(action: BulkAction, ids: string[], actor: Actor): Promise<BulkOutcome>
  recentScripts(projectId: string): RecentScripts
}

/** Handlers of projects (§4.3), and of the panel's pin, bulk and recent scripts. */
export function projectHandlers({ projects, bulk, recentScripts }: ProjectsNeeds) {
  return {
    list: ({ query, actor }) => {
      const tagIds = (queryText(query, 'tagIds') ?? '').split(',').filter(Boolean)
      return json(projects.list({ tagIds, scope: actor.projects }).map(project => shownProject(project, actor)))
    },

    create: async request => {
      const fields = readFields(await request.json(), newProjectFields)
      return answer(await projects.create({ ...fields, categoryId: emptyIsNull(fields.categoryId) }, request.actor))
    },

    get: request => json(shownProject(projects.get(param(request, 'id')), request.actor)),

    update: async request => {
      const fields = readFields(await request.json(), projectFields)
      const patch = { ...fields, categoryId: emptyIsNull(fields.categoryId), seen: expectedTags(request.headers) }
      return answer(await projects.update(param(request, 'id'), patch, request.actor))
    },

    remove: async request => {
      await projects.remove(param(request, 'id'), request.actor)
      return json({ success: true, message: 'The project was deleted' })
    },

    regenerateToken: async request =>
      json({ success: true, token: await projects.regenerateToken(param(request, 'id'), request.actor) }),

    pin: async request => {
      const { pinned } = readFields(await request.json(), pinFields)
      return answer(await projects.update(param(request, 'id'), { pinned }, request.actor))
    },

    bulk: async request => {
      const { ids: chosen, ...action } = readFields(await request.json(), bulkFields)
      return json({ success: true, ...(await bulk(action, chosen, request.actor)) })
    },

    recentScripts: request => json(recentScripts(param(request, 'id')))
  } satisfies Record<string, Handler>
}

function answer(project: Project) {
  return json({ success: true, project })
}
