import { invalid } from '../base/errors.js'
import { parseDotenv } from '../config/dotenv.js'
import { json } from '../http/core/route.js'
import type { Actor } from '../model/audit.js'
import {
  maxVariableNameLength,
  maxVariables,
  maxVariablesBytes,
  variableNameFault,
  variableValueFault,
  type GivenVariable,
  type Variable
} from '../model/variable.js'
import {
  flag,
  type JsonSchema,
  list,
  multiline,
  nullable,
  optional,
  type Read,
  readFields,
  reads
} from '../base/fields.js'
import { type Handler, param } from './route.js'

/** Dependencies of the handlers of variables. */
export interface VariablesNeeds {
  variables: {
    list(projectId: string): Variable[]
    replace(projectId: string, given: readonly GivenVariable[], actor: Actor): Promise<Variable[]>
    change(
      projectId: string,
      change: { set: readonly GivenVariable[]; unset: readonly string[] },
      actor: Actor
    ): Promise<Variable[]>
  }
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
export function variableHandlers({ variables }: VariablesNeeds) {
  const answer = (now: Variable[]) => json({ success: true, variables: now })
  return {
    list: request => answer(variables.list(param(request, 'id'))),

    /**
     * `PUT {variables: [{name, value, secret}]}`: sets these variables and removes all others. Without `value` or
     * `secret`, a stored variable keeps its own.
     */
    replace: async request => {
      const fields = readFields(await request.json(), variablesFields)
      return answer(await variables.replace(param(request, 'id'), fields.variables, request.actor))
    },

    /**
     * `PATCH {variables, unset: [name], dotenv, secret}`: sets and removes single variables. `dotenv` is the text of a
     * .env file; with `secret`, all its variables are secret.
     */
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
