import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { sha256, rawPublicKey } from '../../lib/base/digests.js'
import { fingerprintOf } from '../../lib/core/proof/statement.js'
import { listOf, type ReceiptSigner, readReceipt, receiptText } from '../../lib/core/proof/receipt.js'
import { hubKeyText, type SignedHubKey } from '../../lib/model/fleet-wire.js'
import type { Receipt, ReceiptStatement } from '../../lib/model/receipt.js'

/** The key of a server, in a test. */
export interface TestKey extends ReceiptSigner {
  publicKey: KeyObject
  /** The 32 bytes in base64. */
  bytes: string
}

export function newTestKey(): TestKey {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  return {
    fingerprint: fingerprintOf(publicKey),
    publicKey,
    bytes: rawPublicKey(publicKey).toString('base64'),
    sign: bytes => sign(null, bytes, privateKey).toString('base64')
  }
}

/** Returns the statement by which a key names the next one. */
export function successorOf(key: TestKey, next: TestKey): SignedHubKey {
  return { hubKey: next.bytes, signature: key.sign(Buffer.from(hubKeyText(next.bytes))) }
}

/** Returns the receipt of the deployment with a number, as a server with this key makes it. */
export function aStatement(key: TestKey, number: number, patch: Partial<Receipt> = {}): ReceiptStatement {
  const at = new Date(Date.UTC(2026, 10, 1) + number * 60_000).toISOString()
  const list = listOf([])
  const digest = sha256(Buffer.from(`release ${number}`)).toString('hex')
  return {
    subjects: [{ name: 'shop', digest: { sha256: digest, dirHash: digest } }],
    receipt: {
      server: { key: key.fingerprint, publicKey: key.bytes, origin: 'svc/0123456789abcdef/audit', version: '1.2.0' },
      chain: { number, previous: null },
      project: { id: 'proj_shop', name: 'shop' },
      target: '/srv/shop',
      deployment: {
        id: `dep_${number}`,
        status: 'success',
        failedStep: null,
        placed: number,
        startedAt: at,
        endedAt: at,
        issuedAt: at,
        late: false
      },
      actor: { name: 'token:ana', tokenId: 'tok_1' },
      origin: { trigger: 'cli', exact: false, rollbackOf: null, undoOf: null, promotedFrom: null, commit: null },
      reverted: null,
      files: { placed: 1, added: { count: 0, sha256: digest }, changed: { count: 1, sha256: digest }, removed: list },
      scripts: list,
      checks: list,
      approvals: list,
      nodes: null,
      signers: list,
      audit: { size: 10 + number, root: digest },
      ...patch
    }
  }
}

/** Returns the texts of a chain of receipts. `patch` returns what a receipt says instead. */
export function aChain(
  key: TestKey,
  numbers: readonly number[],
  {
    previous = null,
    patch = () => ({})
  }: { previous?: string | null; patch?: (number: number) => Partial<Receipt> } = {}
): string[] {
  let before = previous
  return numbers.map(number => {
    const { subjects, receipt } = aStatement(key, number, { chain: { number, previous: before }, ...patch(number) })
    const files = receipt.files && { ...receipt.files, removed: { count: 0, sha256: receipt.files.added.sha256 } }
    const text = receiptText({ subjects, receipt: { ...receipt, files } }, key)
    before = readReceipt(text).sha256
    return text
  })
}
