/*
 * Signing of a push or a bundle: the keys of --sign-key and SVC_SIGNING_KEY, and the statement about the files. A key without a password
 * is read here; for any other, `ssh-keygen -Y sign` is called, which asks for the password, the agent or the touch of the key.
 */
import { spawn } from 'node:child_process'
import type { KeyObject } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { homedir, hostname } from 'node:os'
import { basename, resolve } from 'node:path'
import { readVersion } from '../../base/config/version.js'
import { sha256 } from '../../base/digests.js'
import { reasonOf, Refusal } from '../../base/errors.js'
import { isInside } from '../../base/files.js'
import { countOf, isBlank, oneLine } from '../../base/text.js'
import { fingerprintOf } from '../../core/proof/dsse.js'
import { readPrivateKey } from '../../core/proof/keys.js'
import { isMinisign, minisigned, readMinisignKey } from '../../core/proof/minisign.js'
import { bareEnvelope } from '../../core/proof/signature.js'
import { digestOf } from '../../core/proof/signers.js'
import { isOpensshKey, readOpensshKey, readSshSignature, sshSigned } from '../../core/proof/sshsig.js'
import { writeStatement } from '../../core/proof/statement.js'
import type { Provenance } from '../../model/provenance.js'
import { statedTimes, statementDays } from '../../base/shared/statement-text.js'
import { type Attached, signingNamespace } from '../../model/statement.js'
import { readSbom } from '../../model/sbom.js'
import type { UploadPermit } from '../../model/access.js'
import { type Context, usage } from '../command.js'

/** Options of a release that is signed. */
export const signOptions = {
  'sign-key': {
    type: 'text',
    value: 'file',
    repeatable: true,
    help: 'sign the release with this private key of ssh-keygen, minisign or svc; default: SVC_SIGNING_KEY'
  },
  'sign-for': {
    type: 'text',
    value: 'project id',
    repeatable: true,
    help: 'another project to which the signed release may be promoted'
  },
  'sign-days': {
    type: 'count',
    value: 'n',
    minimum: 1,
    maximum: 3650,
    help: `days for which the signature is accepted; default: ${statementDays}`
  },
  sbom: { type: 'text', value: 'file', help: 'send this list of components: CycloneDX or SPDX, in JSON' }
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

const maxKeyBytes = 64 * 1024
/** Maximum number of characters of the name of a release, which is only shown. */
const maxShownName = 100

/** Reads the keys that the options and the environment name. Refuses keys in the directory of the project. */
export async function openSigning(context: Context, given: Given, outputDir: string): Promise<Signing> {
  const own = context.env['SVC_SIGNING_KEY']
  const named = given['sign-key'].length === 0 && own ? [own] : given['sign-key']
  const signers = await Promise.all(named.map(each => openSigner(context, each, outputDir)))
  if (signers.length === 0 && (given['sign-for'].length > 0 || given['sign-days'] !== undefined)) {
    throw usage('--sign-key', '--sign-for and --sign-days need a key: --sign-key')
  }
  const sbom = given.sbom === undefined ? null : await readSbomFile(resolve(context.cwd, given.sbom))
  return { signers, alsoFor: given['sign-for'], days: given['sign-days'] ?? statementDays, sbom }
}

async function readSbomFile(path: string): Promise<Uint8Array> {
  const bytes = await readFile(path).catch((error: unknown) => {
    throw usage('--sbom', `Cannot read "${path}": ${reasonOf(error)}`)
  })
  // The server reads it, too: what it would refuse is neither packed nor carried to it.
  readSbom(bytes)
  return bytes
}

async function openSigner(context: Context, named: string, outputDir: string): Promise<Signer> {
  if (named.startsWith('-----BEGIN ')) return signerOf(named, { name: 'SVC_SIGNING_KEY', path: null, context })
  const path = resolve(context.cwd, named.replace(/^~(?=\/)/, homedir()))
  refuseOwnKey(path, [context.cwd, resolve(context.cwd, outputDir)])
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    throw new Refusal('usage', 'key_unreadable', `Cannot read the key "${path}": ${reasonOf(error)}`)
  })
  return signerOf(text.slice(0, maxKeyBytes), { name: basename(path), path, context })
}

/** A key in the project would be deployed, or committed, sooner or later. */
function refuseOwnKey(path: string, directories: readonly string[]): void {
  const real = (each: string): string => {
    try {
      return realpathSync(each)
    } catch {
      return each
    }
  }
  if (!directories.some(directory => isInside(real(directory), real(path)))) return
  const sentence = `Cannot sign with "${path}": the key is in the directory of the project. Move it elsewhere`
  throw new Refusal('usage', 'key_in_project', sentence)
}

interface KeyFile {
  name: string
  /** Null: the key is in the environment. */
  path: string | null
  context: Context
}

function signerOf(text: string, file: KeyFile): Signer {
  const given = text.trim()
  if (isOpensshKey(given)) {
    const read = readOpensshKey(given)
    if (read === null) return bySshKeygen(file)
    const { key, comment } = read
    return withKey(key, comment || file.name, bytes => sshSigned(bytes, key))
  }
  if (isMinisign(given)) {
    const key = readMinisignKey(given)
    const comment = `timestamp:${Math.floor(Date.now() / 1000)}\tfile:statement.json`
    return withKey(key.key, file.name, bytes => minisigned(bytes, key, comment))
  }
  if (/^(sk-)?ssh-ed25519/.test(given)) return bySshKeygen(file)
  const key = readPrivateKey(given)
  return withKey(key, file.name, bytes => bareEnvelope(bytes, key))
}

function withKey(key: KeyObject, name: string, write: (statement: Buffer) => string): Signer {
  const who = `${name} ${fingerprintOf(key)}`
  return { sign: async statement => ({ signature: write(statement), who }) }
}

/** Signs with ssh-keygen: the key is encrypted, in an agent, or in hardware. */
function bySshKeygen({ path, name, context }: KeyFile): Signer {
  if (path === null) {
    throw new Refusal('usage', 'key_unreadable', 'The key in SVC_SIGNING_KEY has a password: name its file instead')
  }
  return {
    async sign(statement) {
      const signature = await runSshKeygen(path, statement, context)
      const { key } = readSshSignature(signature)
      const comment = await readFile(`${path.replace(/\.pub$/, '')}.pub`, 'utf8').then(
        text => text.trim().split(/\s+/).slice(2).join(' '),
        () => ''
      )
      return { signature, who: `${comment || name} ${key.fingerprint}` }
    }
  }
}

/** What ssh-keygen needs of the environment. */
const inherited = ['PATH', 'HOME', 'SSH_AUTH_SOCK', 'SSH_ASKPASS', 'SSH_ASKPASS_REQUIRE', 'DISPLAY', 'TERM']
const maxOutputBytes = 64 * 1024

function runSshKeygen(path: string, statement: Buffer, { env }: Context): Promise<string> {
  const own = Object.fromEntries(inherited.flatMap(name => (env[name] === undefined ? [] : [[name, env[name]]])))
  return new Promise((settle, reject) => {
    const child = spawn('ssh-keygen', ['-q', '-Y', 'sign', '-n', signingNamespace, '-f', path], { env: own })
    const [out, errors]: [Buffer[], Buffer[]] = [[], []]
    const keep = (list: Buffer[]) => (chunk: Buffer) => {
      if (list.reduce((sum, { length }) => sum + length, 0) < maxOutputBytes) list.push(chunk)
    }
    child.stdout.on('data', keep(out))
    child.stderr.on('data', keep(errors))
    const fail = (why: string): void =>
      reject(new Refusal('unavailable', 'signing_failed', `Cannot sign with "${path}": ${why}`))
    child.once('error', error => fail(`ssh-keygen cannot be started (${reasonOf(error)})`))
    child.once('close', code => {
      if (code === 0) settle(Buffer.concat(out).toString('latin1'))
      else fail(`ssh-keygen says: ${Buffer.concat(errors).toString().trim() || `exit code ${code}`}`)
    })
    child.stdin.on('error', () => {})
    child.stdin.end(statement)
  })
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
  const { treeSha256, entries } = signable.tree
  const statement = statementAbout(signing, signable, context)
  const signatures: string[] = []
  for (const signer of signing.signers) {
    const { signature, who } = await signer.sign(statement)
    signatures.push(signature)
    const tree = `${treeSha256.slice(0, 4)}…${treeSha256.slice(-2)}`
    context.output.note(`Signed tree ${tree} (${countOf(entries.length, 'file')}) as ${who}`)
  }
  return { ...sbom, statement: statement.toString(), signatures }
}

function statementAbout(
  { alsoFor, days, sbom }: Signing,
  { projectId, tree, fields, message, provenance }: Signable,
  { cwd }: Context
): Buffer {
  const now = Date.now()
  const digest = (text = ''): string | undefined => (isBlank(text) ? undefined : digestOf(text))
  const [preDeploy, postDeploy] = [digest(fields['preDeploy']), digest(fields['postDeploy'])]
  const env = Object.keys(JSON.parse(fields['env'] ?? '{}') as Record<string, string>)
  return writeStatement(
    {
      name: [...oneLine(basename(cwd))].slice(0, maxShownName).join('') || projectId,
      treeSha256: tree.treeSha256,
      projectId,
      alsoFor,
      message: message || null,
      scripts: { ...(preDeploy !== undefined && { preDeploy }), ...(postDeploy !== undefined && { postDeploy }) },
      env,
      ...statedTimes(now, days),
      builder: `svc/${readVersion()} ${hostname()}`,
      sbomSha256: sbom === null ? null : sha256(sbom).toString('hex')
    },
    {
      commit: provenance?.commit ?? null,
      repository: provenance?.repository ?? null,
      invocationId: provenance?.ci?.run ?? null,
      startedOn: new Date(now).toISOString()
    }
  )
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
  if (demand.sbom === 'require' && !hasSbom) {
    throw new Refusal('forbidden', 'sbom_missing', `Nothing was sent: ${demandLine(demand)}. Send it: ${cure}--sbom`)
  }
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
