/* Signed releases: keys, statements about zips, and their signatures. */
import { createHash, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { publicKeyOf } from '../../lib/core/proof/keys.js'
import { bareEnvelope, writeStatement } from '../../lib/core/proof/statement.js'
import { createTreeDigest } from '../../lib/model/manifest.js'
import type { SigningKey, Statement } from '../../lib/model/statement.js'

/** A key of svc, as the table of keys has it. */
export interface TestKey {
  privateKey: KeyObject
  row: SigningKey
}

/** Makes a key. */
export function aKey(name: string, patch: Partial<SigningKey> = {}): TestKey {
  const { privateKey } = generateKeyPairSync('ed25519')
  const { text, fingerprint, kind } = publicKeyOf(privateKey)
  const nothing = { projectIds: null, notBefore: null, notAfter: null, revokedAt: null }
  const createdAt = '2026-01-01T00:00:00.000Z'
  return {
    privateKey,
    row: { id: `key_${name}`, kind, public: text, fingerprint, name, ...nothing, createdAt, ...patch }
  }
}

/** Returns the tree of files, as `zipOf` packs them. */
export function treeOfFiles(files: Record<string, string>): string {
  const tree = createTreeDigest()
  for (const [path, text] of Object.entries(files).sort(([a], [b]) => (a < b ? -1 : 1))) {
    tree.add({ path, mode: 0o100644, size: Buffer.byteLength(text), sha256: digestOf(text) })
  }
  return tree.end()
}

/** Returns the SHA-256 of a text in hexadecimal. */
export const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex')

/** Returns a statement about files. */
export function statementOf(projectId: string, files: Record<string, string>, patch: Partial<Statement> = {}): string {
  const statement: Statement = {
    name: 'shop',
    treeSha256: treeOfFiles(files),
    projectId,
    alsoFor: [],
    message: null,
    scripts: {},
    env: [],
    notAfter: null,
    sequence: 100,
    builder: 'test',
    sbomSha256: null,
    ...patch
  }
  const origin = { commit: null, repository: null, invocationId: null, startedOn: '2026-01-01T00:00:00.000Z' }
  return writeStatement(statement, origin).toString()
}

/** Returns a statement with the signatures of these keys, as an upload sends them. */
export function signedBy(statement: string, ...keys: readonly TestKey[]) {
  const signatures = keys.map(({ privateKey }) => bareEnvelope(Buffer.from(statement), privateKey))
  return { statement, signatures }
}
