/*
 * How a release is signed: the options, and what a server asks for. What signs is in signers.ts, which is loaded only for a
 * release that is signed, or has a list of components.
 */
import { statementDays } from '../../base/shared/statement-text.js'
import { Refusal } from '../../base/errors.js'
import { countOf } from '../../base/text.js'
import type { UploadPermit } from '../../model/access.js'
import type { Provenance } from '../../model/provenance.js'
import type { Attached } from '../../model/statement.js'
import { type Context, number, option, usage } from '../command.js'

/** Options of a release that is signed. */
export const signOptions = {
  'sign-key': option(
    'file',
    'sign the release with this private key of ssh-keygen, minisign or svc; default: SVC_SIGNING_KEY',
    { repeatable: true }
  ),
  'sign-for': option('project id', 'another project to which the signed release may be promoted', { repeatable: true }),
  'sign-days': number('n', `days for which the signature is accepted; default: ${statementDays}`, {
    minimum: 1,
    maximum: 3650
  }),
  sbom: option('file', 'send this list of components: CycloneDX or SPDX, in JSON')
} as const

/** How a push is signed. */
export interface Signing {
  signers: readonly Signer[]
  alsoFor: readonly string[]
  days: number
  sbom: Uint8Array | null
}

/** A key that signs. */
export interface Signer {
  sign(statement: Buffer): Promise<{ signature: string; who: string }>
}

interface Given {
  'sign-key': readonly string[]
  'sign-for': readonly string[]
  'sign-days': number | undefined
  sbom: string | undefined
}

/** Reads the keys that the options and the environment name. Refuses keys in the directory of the project. */
export async function openSigning(context: Context, given: Given, outputDir: string): Promise<Signing> {
  const own = context.env['SVC_SIGNING_KEY']
  const named = given['sign-key'].length === 0 && own ? [own] : given['sign-key']
  const plain = { signers: [], alsoFor: given['sign-for'], days: given['sign-days'] ?? statementDays, sbom: null }
  if (named.length > 0 || given.sbom !== undefined) {
    const { openSigner, readSbomFile } = await import('./signers.js')
    const signers = await Promise.all(named.map(each => openSigner(context, each, outputDir)))
    requireKey(signers, given)
    return { ...plain, signers, sbom: given.sbom === undefined ? null : await readSbomFile(context, given.sbom) }
  }
  requireKey([], given)
  return plain
}

function requireKey(signers: readonly Signer[], given: Given): void {
  if (signers.length === 0 && (given['sign-for'].length > 0 || given['sign-days'] !== undefined))
    throw usage('--sign-key', '--sign-for and --sign-days need a key: --sign-key')
}

/** What is signed. */
export interface Signable {
  projectId: string
  tree: { treeSha256: string; entries: readonly unknown[] }
  /** The fields of the form. */
  fields: Readonly<Record<string, string | undefined>>
  message: string | null
  provenance: Provenance | null
}

/** Returns what is sent beside the files, and says who signed it. */
export async function attach(signing: Signing, signable: Signable, context: Context): Promise<Attached> {
  const sbom = signing.sbom === null ? {} : { sbom: signing.sbom }
  if (signing.signers.length === 0) return sbom
  const { signStatement } = await import('./signers.js')
  return { ...sbom, ...(await signStatement(signing, signable, context)) }
}

/** What comes with a release. */
interface Offered {
  isSigned: boolean
  hasSbom: boolean
  /** How the command is named that signs it. */
  cure?: string
}

/** Refuses a release that the server would refuse, before anything is packed or sent. */
export function checkSigning({ isSigned, hasSbom, cure = '' }: Offered, permit: UploadPermit | null): void {
  if ((isSigned || hasSbom) && permit?.features.includes('signatures') !== true) {
    const what = isSigned ? 'signatures' : 'lists of components'
    throw new Refusal('invalid', 'server_too_old', `The server is too old for ${what}. Update it. Nothing was deployed`)
  }
  const demand = permit?.signatures
  if (demand === undefined) return
  if (demand.require === 'refuse' && !isSigned) {
    const sentence = `Nothing was sent: ${demandLine(demand)}. Sign it: ${cure}--sign-key`
    throw new Refusal('forbidden', 'signature_missing', sentence)
  }
  if (demand.sbom === 'require' && !hasSbom)
    throw new Refusal('forbidden', 'sbom_missing', `Nothing was sent: ${demandLine(demand)}. Send it: ${cure}--sbom`)
}

/** Says what a server asks of releases. */
export function demandLine({ require, threshold, keys, sbom, by }: NonNullable<UploadPermit['signatures']>): string {
  const who = by === 'server' ? 'the server' : 'the project'
  const list = keys.length === 0 ? 'no key is trusted' : keys.slice(0, 10).join(', ')
  const parts = [
    ...(require === 'off' ? [] : [`a release must be signed by ${countOf(threshold, 'key')} of: ${list}`]),
    ...(sbom === 'require' ? ['it needs a list of components'] : [])
  ]
  return parts.length === 0 ? 'no signature is needed' : `${who} says that ${parts.join(', and ')}`
}
