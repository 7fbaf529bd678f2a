/*
 * The keys of --sign-key and SVC_SIGNING_KEY, and the statement that they sign. A key without a password is read here; for
 * any other, `ssh-keygen -Y sign` is called, which asks for the password, the agent or the touch of the key.
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
import { bareEnvelope, fingerprintOf, digestOf, writeStatement } from '../../core/proof/statement.js'
import { readPrivateKey } from '../../core/proof/keys.js'
import { statedTimes } from '../../base/shared/statement-text.js'
import { type Attached, signingNamespace } from '../../model/statement.js'
import { type Context, usage } from '../command.js'
import type { Signable, Signer, Signing } from './signing.js'

const maxKeyBytes = 64 * 1024
/** Maximum number of characters of the name of a release, which is only shown. */
const maxShownName = 100

/** Reads a list of components. Refuses one that the server would refuse: it is neither packed nor carried to it. */
export async function readSbomFile({ cwd }: Context, given: string): Promise<Uint8Array> {
  const path = resolve(cwd, given)
  const bytes = await readFile(path).catch((error: unknown) => {
    throw usage('--sbom', `Cannot read "${path}": ${reasonOf(error)}`)
  })
  const { readSbom } = await import('../../model/sbom.js')
  readSbom(bytes)
  return bytes
}

/** Opens the key that a file or the environment has. */
export async function openSigner(context: Context, named: string, outputDir: string): Promise<Signer> {
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

async function signerOf(text: string, file: KeyFile): Promise<Signer> {
  const given = text.trim()
  if (given.startsWith('-----BEGIN PRIVATE KEY-----')) return withPem(given, file)
  // A push that is signed with a key of svc loads nothing of this.
  const [{ isOpensshKey, readOpensshKey, sshSigned }, { isMinisign, minisigned, readMinisignKey }] = await Promise.all([
    import('../../core/proof/signature-formats.js'),
    import('../../core/proof/signature-formats.js')
  ])
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
  return /^(sk-)?ssh-ed25519/.test(given) ? bySshKeygen(file) : withPem(given, file)
}

function withPem(text: string, { name }: KeyFile): Signer {
  const key = readPrivateKey(text)
  return withKey(key, name, bytes => bareEnvelope(bytes, key))
}

function withKey(key: KeyObject, name: string, write: (statement: Buffer) => string): Signer {
  const who = `${name} ${fingerprintOf(key)}`
  return { sign: async statement => ({ signature: write(statement), who }) }
}

/** Signs with ssh-keygen: the key is encrypted, in an agent, or in hardware. */
function bySshKeygen({ path, name, context }: KeyFile): Signer {
  if (path === null)
    throw new Refusal('usage', 'key_unreadable', 'The key in SVC_SIGNING_KEY has a password: name its file instead')
  return {
    async sign(statement) {
      const signature = await runSshKeygen(path, statement, context)
      const { readSshSignature } = await import('../../core/proof/signature-formats.js')
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

/** Signs the statement about a release with each key, and says who signed it. */
export async function signStatement(
  signing: Signing,
  signable: Signable,
  context: Context
): Promise<Pick<Attached, 'statement' | 'signatures'>> {
  const { treeSha256, entries } = signable.tree
  const statement = statementAbout(signing, signable, context)
  const signatures: string[] = []
  for (const signer of signing.signers) {
    const { signature, who } = await signer.sign(statement)
    signatures.push(signature)
    const tree = `${treeSha256.slice(0, 4)}…${treeSha256.slice(-2)}`
    context.output.note(`Signed tree ${tree} (${countOf(entries.length, 'file')}) as ${who}`)
  }
  return { statement: statement.toString(), signatures }
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
