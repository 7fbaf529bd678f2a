/*
 * The key of this browser, which signs what is dropped on the panel. WebCrypto makes it, and nobody can read its private
 * half: IndexedDB keeps it as an object that only signs. A browser without Ed25519, and a page without TLS, have none.
 */
import { envelopeHead, statedTimes, statementText, statementType } from './shared/statement-text.js'

export interface BrowserKey {
  privateKey: CryptoKey
  /** The public half in PEM, as `svc keys trust` reads it. */
  publicText: string
  /** As ssh-keygen shows it. */
  fingerprint: string
}

/** Why this browser cannot sign; `null`: it can. */
export type NoSigning = 'insecure' | 'unsupported' | null

/** What is signed. */
export interface Signable {
  projectId: string
  /** The name of the project. */
  name: string
  treeSha256: string
  message: string | null
}

interface StoredKey {
  privateKey: CryptoKey
  publicBytes: Uint8Array<ArrayBuffer>
}

const algorithm = { name: 'Ed25519' }
const store = 'keys'
const own = 'release'
/** The head of every Ed25519 key in DER (RFC 8410 §4). */
const derHead = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00]
/** The length and the name of its type, and the length of the key, as SSH writes them (RFC 8709 §4). */
const sshHead = [0, 0, 0, 11, ...new TextEncoder().encode('ssh-ed25519'), 0, 0, 0, 32]

/** Returns why this browser cannot sign. */
export async function whyNoSigning(): Promise<NoSigning> {
  if (!isSecureContext || (crypto.subtle as SubtleCrypto | undefined) === undefined) return 'insecure'
  try {
    await crypto.subtle.generateKey(algorithm, false, ['sign', 'verify'])
    return null
  } catch {
    return 'unsupported'
  }
}

/** Returns the key of this browser; null: there is no key yet. */
export async function findBrowserKey(): Promise<BrowserKey | null> {
  const found = await inStore('readonly', keys => keys.get(own) as IDBRequest<StoredKey | undefined>)
  return found === undefined ? null : keyOf(found)
}

/** Makes the key of this browser, in place of an earlier one. */
export async function makeBrowserKey(): Promise<BrowserKey> {
  const pair = (await crypto.subtle.generateKey(algorithm, false, ['sign', 'verify'])) as CryptoKeyPair
  const publicBytes = new Uint8Array(await crypto.subtle.exportKey('raw', pair.publicKey))
  const made: StoredKey = { privateKey: pair.privateKey, publicBytes }
  await inStore('readwrite', keys => keys.put(made, own))
  return keyOf(made)
}

export async function forgetBrowserKey(): Promise<void> {
  await inStore('readwrite', keys => keys.delete(own))
}

/** Returns the statement about a release, and the signature of this key. */
export async function signRelease(
  { privateKey, fingerprint }: BrowserKey,
  { projectId, name, treeSha256, message }: Signable,
  nowMs: number
): Promise<{ statement: string; signature: string }> {
  const release = { name, treeSha256, projectId, alsoFor: [], message, scripts: {}, env: [], sbomSha256: null }
  const statement = statementText(
    { ...release, ...statedTimes(nowMs), builder: 'svc panel' },
    { commit: null, repository: null, invocationId: null, startedOn: new Date(nowMs).toISOString() }
  )
  const payload = new TextEncoder().encode(statement)
  const head = new TextEncoder().encode(envelopeHead(statementType, statementType.length, payload.length))
  const signed = await crypto.subtle.sign(algorithm, privateKey, new Uint8Array([...head, ...payload]))
  const signatures = [{ keyid: fingerprint, sig: base64(new Uint8Array(signed)) }]
  return { statement, signature: `${JSON.stringify({ payloadType: statementType, signatures })}\n` }
}

async function keyOf({ privateKey, publicBytes }: StoredKey): Promise<BrowserKey> {
  const digest = await crypto.subtle.digest('SHA-256', new Uint8Array([...sshHead, ...publicBytes]))
  const der = base64(new Uint8Array([...derHead, ...publicBytes]))
  return {
    privateKey,
    publicText: `-----BEGIN PUBLIC KEY-----\n${der}\n-----END PUBLIC KEY-----`,
    fingerprint: `SHA256:${base64(new Uint8Array(digest)).replaceAll('=', '')}`
  }
}

const base64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes))

/** Runs one request in the database of this browser. */
async function inStore<T>(mode: IDBTransactionMode, ask: (keys: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const opening = indexedDB.open('svc-signing', 1)
  opening.onupgradeneeded = () => void opening.result.createObjectStore(store)
  const database = await answered(opening)
  try {
    const transaction = database.transaction(store, mode)
    const found = await answered(ask(transaction.objectStore(store)))
    if (mode === 'readwrite') await completed(transaction)
    return found
  } finally {
    database.close()
  }
}

function answered<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result)
    request.onerror = () => reject(request.error as DOMException)
  })
}

function completed(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve()
    transaction.onabort = () => reject(transaction.error as DOMException)
  })
}
