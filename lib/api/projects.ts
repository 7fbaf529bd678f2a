import { expectedTags } from '../http/core/reply.js'
import { json } from '../http/core/route.js'
import {
  changesCommands,
  labelColors,
  type LabelKind,
  type Project,
  projectReaders,
  bulkActions,
  maxBulk
} from '../model/project.js'
import { newProjectFields, projectFields } from '../model/project-fields.js'
import { oneLine } from '../base/text.js'
import { invalid } from '../base/errors.js'
import {
  flag,
  integer,
  type JsonSchema,
  line,
  list,
  multiline,
  name,
  nullable,
  oneOf,
  optional,
  type Read,
  readFields,
  reads
} from '../base/fields.js'
import { parseDotenv } from '../base/config/files.js'
import {
  type GivenVariable,
  maxVariableNameLength,
  maxVariables,
  maxVariablesBytes,
  type Variable,
  variableNameFault,
  variableValueFault
} from '../model/variable.js'
import { type ApiRequest, type Handler, param, queryText } from './route.js'
import { projectReply, projectsReply, shownProject } from './records.js'
import type { Labels } from '../projects/projects.js'
import type { ApiServices } from './services.js'

const id = line({ min: 1, max: 100 })
const ids = list(id, { max: 200 })
const emptyIsNull = (given: string | null | undefined) => (given === '' ? null : given)

/** Fields of `PUT /api/projects/:id/pin`. */
export const pinFields = {
  /** Whether the overview shows the project. */
  pinned: flag
}

/** Fields of `POST /api/projects/bulk`. */
export const bulkFields = {
  /** Ids of the projects. */
  ids: list(id, { min: 1, max: maxBulk }),
  /** The change to make. */
  action: oneOf(bulkActions),
  /** For `setCategory`: the id of the category. Null means the default category. */
  categoryId: nullable(id),
  /** For `addTags` and `removeTags`: the ids of the tags. */
  tagIds: optional(ids),
  /** For `setClientScripts`: whether clients may send scripts. Null uses the setting of the server. */
  allowClientScripts: optional(nullable(flag))
}

/** Handlers of projects (§4.3), and of the panel's pin, bulk and recent scripts. */
export function projectHandlers({ projects, bulk, recentScripts, proof }: ApiServices) {
  const answer = (
    project: Project,
    { actor }: ApiRequest,
    { ignored = [], kept = null }: { ignored?: readonly string[]; kept?: string | null } = {}
  ) => {
    const unknown = ignored.map(name => `The field "${oneLine(name)}" is unknown and was ignored`)
    const warnings = [...unknown, ...(kept === null ? [] : [kept])]
    const answered = { success: true, project: shownProject(project, actor, proof) }
    return json(warnings.length === 0 ? answered : { ...answered, warnings })
  }

  return {
    list: ({ query, actor }) => {
      const tagIds = (queryText(query, 'tagIds') ?? '').split(',').filter(Boolean)
      const listed = projects.list({ tagIds, scope: actor.projects })
      return projectsReply(listed.map(project => shownProject(project, actor, proof)))
    },

    create: async request => {
      const { body, ignored } = knownFields(await request.json())
      const fields = readFields(body, newProjectFields)
      const project = await projects.create({ ...fields, categoryId: emptyIsNull(fields.categoryId) }, request.actor)
      return answer(project, request, { ignored })
    },

    get: request => projectReply(shownProject(projects.get(param(request, 'id')), request.actor, proof)),

    update: async request => {
      const { body, ignored } = knownFields(await request.json())
      const fields = readFields(body, projectFields)
      const id = param(request, 'id')
      if (changesCommands(projects.get(id), fields)) proof.check(request.actor.provenAt)
      const patch = { ...fields, categoryId: emptyIsNull(fields.categoryId), seen: expectedTags(request.headers) }
      const project = await projects.update(id, patch, request.actor)
      return answer(project, request, {
        ignored,
        kept: fields.deployPath === undefined ? null : projects.keptPlaces(id)
      })
    },

    remove: async request => {
      await projects.remove(param(request, 'id'), request.actor)
      return json({ success: true, message: 'The project was deleted' })
    },

    regenerateToken: async request =>
      json({ success: true, token: await projects.regenerateToken(param(request, 'id'), request.actor) }),

    pin: async request => {
      const { pinned } = readFields(await request.json(), pinFields)
      return answer(await projects.update(param(request, 'id'), { pinned }, request.actor), request)
    },

    bulk: async request => {
      const { ids: chosen, ...action } = readFields(await request.json(), bulkFields)
      if (action.action === 'setClientScripts') proof.check(request.actor.provenAt)
      return json({ success: true, ...(await bulk(action, chosen, request.actor)) })
    },

    recentScripts: request => json(recentScripts(param(request, 'id')))
  } satisfies Record<string, Handler>
}

/** Names that programs of the same family use for a field. */
const otherNames: Readonly<Record<string, keyof typeof projectFields>> = {
  allowCliHooks: 'allowClientScripts',
  allow_cli_hooks: 'allowClientScripts'
}

/** Returns a body with the names of this API, and the names of its fields that no record has. */
function knownFields(given: unknown): { body: unknown; ignored: string[] } {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return { body: given, ignored: [] }
  const body: Record<string, unknown> = { ...given }
  for (const [other, name] of Object.entries(otherNames)) {
    if (!Object.hasOwn(body, other)) continue
    if (Object.hasOwn(body, name) && body[name] !== body[other])
      throw invalid(other, `"${other}" and "${name}" have different values: they are two names of the same field`)
    body[name] = body[other]
    delete body[other]
  }
  // A client may send a whole record back, so the other fields of a record are not worth a warning.
  const ignored = Object.keys(body).filter(name => !Object.hasOwn(projectReaders.fields, name))
  return { body, ignored }
}

/** Fields of a change of a category or a tag. */
export const labelFields = {
  name: optional(name),
  color: nullable(oneOf(labelColors)),
  /** Position in lists: smaller numbers come first. */
  sortOrder: optional(integer(-1_000_000, 1_000_000))
}
/** Fields of a new category or tag. */
export const newLabelFields = { ...labelFields, name }

/** Handlers of categories or tags (§4.10). A response contains the label in a field named after its kind. */
export function labelHandlers(kind: LabelKind, labels: Labels) {
  return {
    list: ({ actor }) => json(labels.list(actor.projects)),

    create: async request => {
      const fields = readFields(await request.json(), newLabelFields)
      return json({ success: true, [kind]: await labels.create(fields, request.actor) })
    },

    update: async request => {
      const fields = { ...readFields(await request.json(), labelFields), seen: expectedTags(request.headers) }
      return json({ success: true, [kind]: await labels.update(param(request, 'id'), fields, request.actor) })
    },

    remove: async request => {
      const projects = await labels.remove(param(request, 'id'), request.actor)
      const counted = kind === 'category' ? { movedProjects: projects } : { detachedProjects: projects }
      return json({ success: true, message: `The ${kind} was deleted`, ...counted })
    }
  } satisfies Record<string, Handler>
}

/** Larger than the real limit, so that the message for too many variables comes from `projects/variables.ts`. */
const maxListed = 10 * maxVariables

const nameSchema: JsonSchema = { type: 'string', maxLength: maxVariableNameLength, pattern: '^[A-Za-z_][A-Za-z0-9_]*$' }
const variableName: Read<string> = reads(nameSchema, 'API_KEY', (value, field) => {
  if (typeof value !== 'string') throw invalid(field, `"${field}" is missing: expected the name of a variable`)
  const fault = variableNameFault(value)
  if (fault !== null)
    throw invalid(field, `${JSON.stringify(value.slice(0, 80))} cannot be the name of a variable: it ${fault}`)
  return value
})

const givenSchema: JsonSchema = {
  type: 'object',
  properties: { name: nameSchema, value: { type: ['string', 'null'] }, secret: { type: ['boolean', 'null'] } },
  required: ['name']
}
const given: Read<GivenVariable> = reads(
  givenSchema,
  { name: 'API_KEY', value: 'k-123', secret: true },
  (value, field) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw invalid(field, `"${field}" must be an object {name, value, secret}`)
    const { name, value: text = null, secret } = value as Record<string, unknown>
    const read = { name: variableName(name, `${field}.name`), secret: nullable(flag)(secret, `${field}.secret`) }
    if (text !== null && typeof text !== 'string')
      throw invalid(`${field}.value`, `"${field}.value" must be a string or null`)
    checkValue({ ...read, value: text }, `${field}.value`)
    return { ...read, value: text }
  }
)

function checkValue({ name, value, secret }: GivenVariable, field: string): void {
  const fault = value === null ? null : variableValueFault(value, secret === true)
  if (fault !== null) throw invalid(field, `The value of "${name}" ${fault}`)
}

/** Fields of `PUT /api/projects/:id/variables`. */
export const variablesFields = {
  /** All variables of the project. */
  variables: list(given, { max: maxListed })
}
/** Fields of `PATCH /api/projects/:id/variables`. */
export const variablesChangeFields = {
  /** Variables to set. */
  variables: optional(list(given, { max: maxListed })),
  /** Names of variables to remove. */
  unset: optional(list(variableName, { max: maxListed })),
  /** Text of a .env file with variables to set. */
  dotenv: optional(multiline({ max: 4 * maxVariablesBytes })),
  /** Whether the variables of `dotenv` are secret. */
  secret: optional(flag)
}

/** Returns the assignments of a .env file. Refuses a text without assignments, and invalid names and values. */
function dotenvVariables(text: string | undefined, secret: true | null): GivenVariable[] {
  if (text === undefined) return []
  const assigned = Object.entries(parseDotenv(text)).map(([name, value]) => ({ name, value, secret }))
  if (assigned.length === 0) throw invalid('dotenv', '"dotenv" contains no assignment: expected lines like NAME=value')
  for (const variable of assigned) {
    const fault = variableNameFault(variable.name)
    if (fault !== null)
      throw invalid('dotenv', `"dotenv" cannot set ${JSON.stringify(variable.name.slice(0, 80))}: it ${fault}`)
    checkValue(variable, 'dotenv')
  }
  return assigned
}

/**
 * Handlers of the variables of a project's scripts. Every response is `{success, variables}` with all variables; the
 * value of a secret is null.
 */
export function variableHandlers({ variables }: ApiServices) {
  const answer = (now: Variable[]) => json({ success: true, variables: now })
  return {
    list: request => answer(variables.list(param(request, 'id'))),

    replace: async request => {
      const fields = readFields(await request.json(), variablesFields)
      return answer(await variables.replace(param(request, 'id'), fields.variables, request.actor))
    },

    change: async request => {
      const {
        variables: set = [],
        unset = [],
        dotenv,
        secret
      } = readFields(await request.json(), variablesChangeFields)
      const change = { set: [...set, ...dotenvVariables(dotenv, secret || null)], unset }
      return answer(await variables.change(param(request, 'id'), change, request.actor))
    }
  } satisfies Record<string, Handler>
}

const text = line({ min: 1, max: 200, trim: true })

/** Handler of `GET /api/components`: where a component is in place. */
export async function componentHandlers({ projects, findProject, ...doors }: ApiServices) {
  const components = await doors.components()
  return {
    search: async request => {
      const { actor, query, signal } = request
      const version = queryText(query, 'version')
      const asked = {
        name: text(queryText(query, 'name'), 'name'),
        version: version === undefined ? undefined : text(version, 'version')
      }
      const own = actor.projectId === null ? undefined : findProject(actor.projectId)
      const seen = own === undefined ? projects.list({ scope: actor.projects }) : [own]
      const searched = [...seen].sort((one, other) => (one.name < other.name ? -1 : 1))
      const answer = await components.search(searched, asked, signal)
      if (own === undefined) return json(answer)
      // A deploy token reads its deployments, not where the files are.
      return json({ ...answer, components: answer.components.map(each => ({ ...each, target: null })) })
    }
  } satisfies Record<string, Handler>
}
