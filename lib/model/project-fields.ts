/* The writable fields of a project, and their rules: for requests, and for import packages. */
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
  optional,
  reads,
  type Read
} from '../base/fields.js'
import { invalid } from '../base/refusal.js'
import { allowedEnvFault, maxAllowedEnv } from './client-env.js'
import { givenPolicy } from './policy-keys.js'
import { maxDiskMbLimit } from './project.js'
import { maxScriptTimeoutSeconds, normalDirectory, scriptDirectoryFault, scriptShellFault } from './script-settings.js'

const ids = list(line({ min: 1, max: 100 }), { max: 200 })

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
