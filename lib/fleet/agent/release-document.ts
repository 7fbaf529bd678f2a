/*
 * Reads the text of a release document: the fields that this version knows, with the rules that the API of the hub has for
 * them. A later hub may add fields that inform: they are dropped. A setting, a key of the policy or a wish of the client
 * that this version does not know demands something, so the release is refused instead of deployed without it.
 */
import {
  checked,
  escapedLine,
  flag,
  integer,
  line,
  list,
  mapped,
  maxNameLength,
  maxPathLength,
  maxScriptLength,
  multiline,
  nullable,
  object,
  oneOf,
  optional,
  reads,
  record,
  type Read
} from '../../base/fields.js'
import { invalid, Refusal } from '../../base/errors.js'
import { clientVariableNameFault, maxClientVariables } from '../../model/client-env.js'
import type { ReleaseDocument } from '../../model/fleet-wire.js'
import { storedPolicy } from '../../model/policy-keys.js'
import { projectFields } from '../../model/project-fields.js'
import { maxVariableBytes, maxVariables, variableNameFault, variableValueFault } from '../../model/variable.js'

const count = integer(0, Number.MAX_SAFE_INTEGER)
const id = line({ min: 1, max: maxNameLength })
const script = optional(multiline({ max: maxScriptLength }))

/** The settings of a project that its deployments use. */
const settings = {
  description: projectFields.description,
  preDeployScript: projectFields.preDeployScript,
  postDeployScript: projectFields.postDeployScript,
  postDeployAsync: projectFields.postDeployAsync,
  allowClientScripts: projectFields.allowClientScripts,
  allowedEnv: projectFields.allowedEnv,
  runAs: projectFields.runAs,
  umask: projectFields.umask,
  scriptTimeoutSeconds: projectFields.scriptTimeoutSeconds,
  scriptShell: projectFields.scriptShell,
  scriptDirectory: projectFields.scriptDirectory,
  maxDiskMb: projectFields.maxDiskMb,
  pm2AppName: projectFields.pm2AppName
}
const knownSettings = object(settings, { strict: true })

const project: Read<Record<string, unknown>> = reads(knownSettings.schema, {}, (value, field) =>
  present(knownSettings(isObject(value) ? withoutUnset(value) : value, field))
)

/** How a project is rolled out is a matter of its hub. */
const policy: Read<ReleaseDocument['policy']> = reads(storedPolicy.schema, {}, (value, field) => {
  if (!isObject(value)) throw invalid(field, `"${field}" is missing or of another type: expected an object`)
  const { rollout: _, ...own } = value
  return storedPolicy(own, field)
})

const variable = mapped(
  object({ name: checked(line(), variableNameFault), value: multiline({ max: maxVariableBytes }), secret: flag }),
  (read, field) => {
    const fault = variableValueFault(read.value, read.secret)
    if (fault !== null) throw invalid(`${field}.value`, `The value of "${read.name}" ${fault}`)
    return read
  }
)

const knownOffer = object(
  {
    origin: oneOf(['upload', 'source deployment']),
    preDeploy: script,
    postDeploy: script,
    postDeployAsync: optional(flag)
  },
  { strict: true }
)
const offered = mapped(knownOffer, present)

const clientEnv = checked(record(multiline(), clientVariableNameFault), given => {
  const { length } = Object.keys(given)
  return length > maxClientVariables ? `it has ${length} variables, at most ${maxClientVariables} are allowed` : null
})

const readDocument = object({
  deployId: id,
  projectId: id,
  projectName: line({ min: 1, max: maxNameLength }),
  env: line({ max: maxNameLength }),
  deployPath: line({ min: 1, max: maxPathLength }),
  treeSha256: id,
  archiveSha256: id,
  archiveBytes: count,
  fileCount: nullable(count),
  policy,
  project,
  variables: list(variable, { max: maxVariables }),
  offered,
  clientEnv,
  message: nullable(escapedLine())
})

/** Returns the document that a text contains. Refuses (`invalid`) `wrong_release`, and names the field. */
export function readReleaseDocument(text: string): ReleaseDocument {
  try {
    return readDocument(parse(text), 'release')
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const sentence = `Cannot use the release from the hub: ${error.message}. If the hub runs a newer svc, upgrade svc on this node`
    throw new Refusal('invalid', 'wrong_release', sentence)
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw invalid('release', '"release" is not valid JSON')
  }
}

/** Drops what this version does not know and the hub has not set. */
function withoutUnset(value: Record<string, unknown>): Record<string, unknown> {
  const isUnset = (given: unknown) => given === null || given === '' || given === false
  return Object.fromEntries(
    Object.entries(value).filter(([name, given]) => Object.hasOwn(settings, name) || !isUnset(given))
  )
}

function present<T extends object>(fields: T): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
