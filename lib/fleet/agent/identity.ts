/*
 * The identity of an agent: `agent.json` says which node of which hub it is, and `keys/agent.ed25519` is its own key
 * (PKCS #8 in PEM). Both are readable by their owner only.
 */
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { mkdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Refusal } from '../../base/refusal.js'
import { replaceFile } from '../../base/replace-file.js'
import { hasCode, reasonOf } from '../../base/system-error.js'

/** Which node an agent is. */
export interface Identity {
  /** The addresses of hubs that the operator gave, the first one first. */
  hubs: string[]
  /** Those that the hub named later, if any. */
  named?: string[]
  nodeId: string
  name: string
  /** The public key of the hub: the 32 bytes in base64. */
  hubKey: string
}

/** The key of an agent. */
export interface AgentKey {
  readonly key: KeyObject
  /** The 32 bytes of the public key in base64. */
  readonly publicKey: string
}

const secretMode = 0o600
const directoryMode = 0o700
/** The header of an Ed25519 public key in DER (RFC 8410 §4); the 32 bytes follow. */
const derHeaderBytes = 12

/** Returns all addresses of hubs that an agent knows. */
export function addressesOf({ hubs, named = [] }: Identity): string[] {
  return [...new Set([...hubs, ...named])]
}

/** Returns the path of the file that contains the identity of an agent. */
export function identityPath(home: string): string {
  return join(home, 'agent.json')
}

/** Returns the identity of the agent of a data directory; null: it has not been enrolled. Refuses `agent_identity`. */
export async function readIdentity(home: string): Promise<Identity | null> {
  const path = identityPath(home)
  try {
    const identity: unknown = JSON.parse(await readFile(path, 'utf8'))
    if (isIdentity(identity)) return identity
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null
    throw unusable(path, reasonOf(error), error)
  }
  throw unusable(path, 'it is not the identity of an agent')
}

/** Writes the identity of an agent. */
export async function writeIdentity(home: string, identity: Identity): Promise<void> {
  await replaceFile(identityPath(home), `${JSON.stringify(identity, null, 2)}\n`, secretMode)
}

/** Returns the key of the agent of a data directory. The first call creates it. Refuses `agent_identity`. */
export async function openAgentKey(home: string): Promise<AgentKey> {
  const path = join(home, 'keys', 'agent.ed25519')
  const pem = (await readPem(path)) ?? (await createPem(path))
  try {
    const key = createPrivateKey(pem)
    if (key.asymmetricKeyType !== 'ed25519') throw unusable(path, 'it is not an Ed25519 key')
    const der = createPublicKey(key).export({ type: 'spki', format: 'der' })
    return { key, publicKey: der.subarray(derHeaderBytes).toString('base64') }
  } catch (error) {
    throw error instanceof Refusal ? error : unusable(path, 'it does not contain a key', error)
  }
}

async function readPem(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null
    throw unusable(path, reasonOf(error), error)
  }
}

async function createPem(path: string): Promise<string> {
  const pem = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  await mkdir(dirname(path), { recursive: true, mode: directoryMode })
  await replaceFile(path, pem, secretMode)
  return pem
}

function isIdentity(value: unknown): value is Identity {
  const { hubs, named = [], nodeId, name, hubKey } = (value ?? {}) as Record<string, unknown>
  const isText = (text: unknown): boolean => typeof text === 'string' && text !== ''
  const isList = (list: unknown): list is unknown[] => Array.isArray(list) && list.every(isText)
  return isList(hubs) && hubs.length > 0 && isList(named) && [nodeId, name, hubKey].every(isText)
}

function unusable(path: string, why: string, cause?: unknown): Refusal {
  const sentence = `Cannot use "${path}": ${why}. Restore it from a backup, or move it away and enroll again`
  return new Refusal('unavailable', 'agent_identity', sentence, { cause })
}
