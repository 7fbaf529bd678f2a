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
import { invalid } from '../base/errors.js'
import { allowedEnvFault, maxAllowedEnv } from './variable.js'
import { givenPolicy } from './policy-keys.js'
import {
  maxDiskMbLimit,
  maxScriptTimeoutSeconds,
  normalDirectory,
  scriptDirectoryFault,
  scriptShellFault
} from './project.js'

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
  /** The target: an absolute directory on the server. */
  deployPath: optional(line({ min: 1, max: maxPathLength })),
  description: optional(multiline()),
  /** Name of the environment, for example production. */
  env: optional(line({ max: maxNameLength, trim: true })),
  /** Id of the category. Null means the default category. */
  categoryId: optional(nullable(line({ max: 100 }))),
  /** Name of the PM2 application of the project. */
  pm2AppName: optional(nullable(line({ max: maxNameLength, trim: true }))),
  /** Ids of the tags. They replace the previous tags. */
  tagIds: optional(ids),
  /**
   * Script to run before extraction. Empty means none, null that the caller may not see it. It replaces the script of a
   * client.
   */
  preDeployScript: optional(multiline({ max: maxScriptLength })),
  /**
   * Script to run after extraction. Empty means none, null that the caller may not see it. It replaces the script of a
   * client.
   */
  postDeployScript: optional(multiline({ max: maxScriptLength })),
  /** Whether the post-deploy script runs in the background. */
  postDeployAsync: optional(flag),
  /** Whether clients may send scripts. Null follows the setting allow_client_scripts. */
  allowClientScripts: optional(nullable(flag)),
  /** Names, or PREFIX_*, of client variables that scripts get even if client scripts are not allowed. */
  allowedEnv: optional(list(variable, { max: maxAllowedEnv })),
  /** The user whose permissions apply to scripts and to writing the target. Null means the user of svc. */
  runAs: optional(emptied),
  /** File mode creation mask in octal. Null means the mask of svc. */
  umask: optional(emptied),
  /** Maximum duration of a script in seconds. Null follows the setting script_timeout. */
  scriptTimeoutSeconds: optional(nullable(integer(1, maxScriptTimeoutSeconds))),
  /** `sh`, `bash` or the absolute path of a shell. Null means `sh`. */
  scriptShell: optional(scriptShell),
  /** Working directory of the scripts, relative to the target. Null means the target. */
  scriptDirectory: optional(scriptDirectory),
  /** Maximum size of the kept archives and outputs in MB. Null means no limit. */
  maxDiskMb: optional(nullable(integer(1, maxDiskMbLimit))),
  /** How deployments treat the target, and when they are a success. Absent keys have their default. */
  policy: optional(givenPolicy),
  /** Whether the overview shows the project. */
  pinned: optional(flag)
}
/** Fields of a new project: `name` and `deployPath` are required. */
export const newProjectFields = {
  ...projectFields,
  name,
  /** The target: an absolute directory on the server. */
  deployPath: line({ min: 1, max: maxPathLength })
}
