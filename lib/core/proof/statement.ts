/*
 * Reads and writes statements about releases (model/statement.ts). A statement is JSON: an object in which no key comes twice,
 * since programs do not agree about which one counts. What svc does not know in it is left alone.
 */
import {
  checked,
  instant,
  integer,
  line,
  list,
  mapped,
  nullable,
  object,
  oneOf,
  optional,
  readFields,
  withDefault
} from '../../base/fields.js'
import { sha256 } from '../../base/digests.js'
import { Refusal } from '../../base/errors.js'
import { doubledKeyIn } from '../../base/text.js'
import { clientVariableNameFault, maxClientVariables } from '../../model/variable.js'
import {
  predicateType,
  pushBuildType,
  type StatedOrigin,
  statementText,
  statementVersion
} from '../../base/shared/statement-text.js'
import { maxStatementBytes, type Statement } from '../../model/statement.js'

/** Maximum depth of a statement. */
const maxDepth = 32
/** Maximum number of other projects. */
const maxProjects = 100
const maxItems = 1000

const digest = checked(line({ max: 64 }), text =>
  /^[0-9a-f]{64}$/.test(text) ? null : 'expected the 64 hex digits of a SHA-256'
)
const id = line({ min: 1, max: 100 })
const variableName = checked(line({ min: 1, max: 200 }), text =>
  clientVariableNameFault(text) === null ? null : 'expected the name of a variable'
)
const zoned = mapped(
  checked(instant, text => (/(Z|[+-]\d\d:?\d\d)$/i.test(text) ? null : 'expected a time with its zone')),
  text => new Date(text).toISOString()
)

const shape = {
  _type: oneOf([statementVersion]),
  subject: list(object({ name: line({ min: 1, max: 200 }), digest: object({ sha256: digest }) }), { min: 1, max: 1 }),
  predicateType: oneOf([predicateType]),
  predicate: object({
    buildDefinition: object({
      buildType: oneOf([pushBuildType]),
      externalParameters: object({
        projectId: id,
        alsoFor: withDefault(list(id, { max: maxProjects }), []),
        message: nullable(line({ max: 500 })),
        scripts: withDefault(object({ preDeploy: optional(digest), postDeploy: optional(digest) }, { strict: true }), {
          preDeploy: undefined,
          postDeploy: undefined
        }),
        env: withDefault(list(variableName, { max: maxClientVariables }), []),
        notAfter: nullable(zoned),
        sequence: integer(0, Number.MAX_SAFE_INTEGER)
      })
    }),
    runDetails: withDefault(
      object({
        builder: withDefault(object({ id: withDefault(line({ max: 300 }), '') }), { id: '' }),
        byproducts: withDefault(
          list(object({ name: line({ max: 200 }), digest: object({ sha256: digest }) }), { max: maxItems }),
          []
        )
      }),
      { builder: { id: '' }, byproducts: [] }
    )
  })
}

/** The name of a list of components among the byproducts. */
const sbomName = /(^|[./-])(cdx|spdx|sbom)([./-]|$)/i

/** Reads a statement. Refuses (403 `signature_bad`) anything else. */
export function readStatement(bytes: Uint8Array): Statement {
  const value = parse(bytes)
  try {
    const { subject, predicate } = readFields(value, shape)
    const { buildDefinition, runDetails } = predicate
    const given = buildDefinition.externalParameters
    const [only] = subject
    if (only === undefined) throw unusable('it is about nothing')
    const { preDeploy, postDeploy } = given.scripts
    const boms = runDetails.byproducts.filter(({ name }) => sbomName.test(name))
    if (boms.length > 1) throw unusable('it names two lists of components')
    return {
      name: only.name,
      treeSha256: only.digest.sha256,
      projectId: given.projectId,
      alsoFor: given.alsoFor,
      message: given.message,
      scripts: { ...(preDeploy !== undefined && { preDeploy }), ...(postDeploy !== undefined && { postDeploy }) },
      env: given.env,
      notAfter: given.notAfter,
      sequence: given.sequence,
      builder: runDetails.builder.id || null,
      sbomSha256: boms[0]?.digest.sha256 ?? null
    }
  } catch (error) {
    if (error instanceof Refusal && error.code !== 'signature_bad') throw unusable(error.message)
    throw error
  }
}

function unusable(why: string): Refusal {
  const sentence = `Cannot use the statement: ${why}. Sign again with --sign-key of svc push or svc bundle`
  return new Refusal('forbidden', 'signature_bad', sentence, { field: 'statement' })
}

function parse(bytes: Uint8Array): unknown {
  if (bytes.length > maxStatementBytes) throw unusable(`it has more than ${maxStatementBytes} bytes`)
  let value: unknown
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    value = JSON.parse(text)
  } catch {
    throw unusable('it is not JSON in UTF-8')
  }
  const fault = doubledKeyIn(text, maxDepth)
  if (fault === 'deep') throw unusable('it is nested too deeply')
  if (fault !== null) throw unusable(`the key ${JSON.stringify(fault.key.slice(0, 50))} comes twice`)
  return value
}

/** Returns the bytes of a statement. */
export function writeStatement(statement: Statement, origin: StatedOrigin): Buffer {
  return Buffer.from(statementText(statement, origin))
}

/** Returns the digest of a script, as statements name it. */
export const digestOf = (script: string): string => sha256(Buffer.from(script)).toString('hex')
