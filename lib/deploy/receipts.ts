/*
 * Receipts of deployments. The transaction that records the end of a deployment notes that it gets one (`oweReceipt`).
 * It is made right after, in one transaction with its place in the chain of the project, so that no crash and no other hub
 * can give two receipts the same place. What is still owed at a start is made then, and says so (`late`).
 */
import type { KeyObject } from 'node:crypto'
import { existsSync } from 'node:fs'
import { instantOf } from '../base/clock.js'
import { sha256, parsePublicKey } from '../base/digests.js'
import { notFound, Refusal } from '../base/errors.js'
import { oneLine } from '../base/text.js'
import { readFrontier } from '../core/audit/audit.js'
import type { Signer } from '../core/audit/signed-note.js'
import { rootOf } from '../core/audit/tree.js'
import type { FoldThreads } from '../core/install/owned-tree.js'
import { fingerprintOf } from '../core/proof/statement.js'
import { listOf, readReceipt, type ReceiptSigner, receiptText, resultText } from '../core/proof/receipt.js'
import type { Reader, Store, Transaction } from '../core/store/database.js'
import { readAuditTree } from '../core/store/tables/audit.js'
import { findDeployment, targetOfDeployment } from '../core/store/tables/deployments.js'
import { findProject } from '../core/store/tables/projects.js'
import {
  findReceipt,
  lastReceipt,
  listReceipts,
  owedReceipts,
  putReceipt,
  type ReceiptFilter,
  type StoredReceipt
} from '../core/store/tables/receipts.js'
import { listHubKeys } from '../core/store/tables/fleet.js'
import { namedPhases, rolloutOfDeployment } from '../core/store/tables/rollouts.js'
import { type DeploymentRow, failedStep, isRevertPending, withoutCommand } from '../model/deployment.js'
import type { SignedHubKey } from '../model/fleet-wire.js'
import type { Receipt, ReceiptFiles, ReceiptStatement, ReceiptSubject } from '../model/receipt.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds, ReceiptNeeds } from './needs.js'
import { isFinal } from './record.js'

export type Receipts = ReturnType<typeof createReceipts>

/** Maximum number of characters of a check in a receipt. */
const maxCheckLength = 300

interface MakingNeeds extends Pick<DeployNeeds, 'clock'> {
  store: Store
  files: Pick<DeployFiles, 'manifest'>
  digest: FoldThreads['digest']
}

/** Creates the receipts. Without `receipts`, none are made. */
export function createReceipts(needs: MakingNeeds & Pick<DeployNeeds, 'log' | 'receipts'>) {
  const { store, receipts, log } = needs
  /** Those that an earlier process left. */
  let left: ReadonlySet<string> = new Set()
  let latest: Promise<void> = Promise.resolve()
  let isClosed = false
  /** Why a receipt could not be made, which is logged once. */
  const failed = new Map<string, unknown>()

  async function makeAll(): Promise<void> {
    if (receipts === undefined) return
    for (const deployId of owedReceipts(store)) {
      if (isClosed) return
      try {
        await makeReceipt({ ...needs, ...receipts }, deployId, { late: left.has(deployId) })
        failed.delete(deployId)
      } catch (error) {
        if (!failed.has(deployId)) log(`Cannot make the receipt of deployment ${deployId} yet`, error)
        failed.set(deployId, error)
      }
    }
  }

  /** Makes what is owed. Never rejects. */
  function make(): Promise<void> {
    latest = latest.then(makeAll).catch(error => log('Cannot make receipts', error))
    return latest
  }

  async function find(deployId: string): Promise<StoredReceipt> {
    if (findReceipt(store, deployId) === null) await make()
    const found = findReceipt(store, deployId)
    if (found == null) throw noReceipt(store, deployId, failed.get(deployId))
    return found
  }

  return {
    make,
    /** Makes those that an earlier process left. */
    recover(): void {
      left = new Set(owedReceipts(store))
      if (left.size > 0) void make()
    },
    /** Ends the work. The next start makes what is still owed. */
    async close(): Promise<void> {
      isClosed = true
      await latest
    },

    /** Returns the receipt of a deployment. Refuses (404) `no_receipt`; (503) `receipt_unmade`. */
    async receipt(deployId: string): Promise<string> {
      return (await find(deployId)).text
    },

    /** Returns the Simple Verification Result of a deployment. Refuses what `receipt` refuses. */
    async receiptResult(deployId: string): Promise<string> {
      const { text } = await find(deployId)
      if (receipts === undefined) throw noReceipt(store, deployId, undefined)
      const { signers } = await receipts.key.signers(readAuditTree(store).origin)
      return resultText(readReceipt(text), signerOf(signers))
    },

    /** Lists receipts, in the order in which the deployments ended. */
    receipts: (filter: ReceiptFilter): StoredReceipt[] => listReceipts(store, filter),

    /** Returns the keys of the server after its first one, each signed by the one before. */
    receiptKeys: (): SignedHubKey[] =>
      listHubKeys(store).map(({ publicKey, signature }) => ({ hubKey: publicKey, signature }))
  }
}

/** Makes the receipt of a deployment that is settled. */
async function makeReceipt(
  { store, clock, files, digest, key, version }: MakingNeeds & ReceiptNeeds,
  deployId: string,
  { late }: { late: boolean }
): Promise<void> {
  const row = findDeployment(store, deployId)
  // Before the earlier files are back, the deployment is not settled.
  if (row === undefined || !isFinal(row.status) || isRevertPending(row)) return
  const path = files.manifest(deployId)
  const { fileCount, treeSha256 } = row
  const found = existsSync(path) ? await digest({ path, fileCount: fileCount ?? 0, treeSha256 }) : null
  const { origin, signers } = await key.signers(readAuditTree(store).origin)
  const signer = signerOf(signers)
  const issuedAt = instantOf(clock)
  await store.write(tx => {
    const now = findDeployment(tx, deployId)
    if (now === undefined) return
    const before = lastReceipt(tx, now.projectId)
    const number = (before?.number ?? 0) + 1
    const receipt: Receipt = {
      server: { key: signer.fingerprint, publicKey: signer.publicKey, origin, version },
      chain: { number, previous: before?.sha256 ?? null },
      ...factsOf(tx, { row: now, files: found?.files ?? null, issuedAt, late })
    }
    const statement = { subjects: subjectsOf(now, found?.dirHash ?? null), receipt }
    const text = receiptText(statement, signer)
    // A receipt that nobody can read is none.
    putReceipt(tx, { deployId, number, sha256: readReceipt(text).sha256, issuedAt, text })
  })
}

/** Returns the signer with the key of now, and the name of that key. */
function signerOf([signer]: readonly Signer[]): Signer & ReceiptSigner {
  const { publicKey } = signer as Signer
  return { ...(signer as Signer), fingerprint: fingerprintOf(parsePublicKey(publicKey) as KeyObject) }
}

function noReceipt(store: Reader, deployId: string, failure: unknown): Refusal {
  const row = findDeployment(store, deployId)
  if (row === undefined) return notFound('Deployment', deployId)
  const sentence = `Deployment ${deployId} has no receipt`
  if (failure !== undefined) {
    const why =
      failure instanceof Refusal ? failure.message : 'an internal error, which the log of the server describes'
    return new Refusal('unavailable', 'receipt_unmade', `${sentence} yet: ${why}`, { cause: failure })
  }
  const why = !isFinal(row.status)
    ? 'it has not finished. A receipt is made at its end'
    : isRevertPending(row)
      ? 'its earlier files are still to be put back. A receipt is made then'
      : 'an earlier version of svc recorded it'
  return new Refusal('not_found', 'no_receipt', `${sentence}: ${why}`)
}

interface Made {
  row: DeploymentRow
  files: ReceiptFiles | null
  issuedAt: string
  late: boolean
}

/** Returns what the records say about a deployment. */
function factsOf(tx: Transaction, { row, files, issuedAt, late }: Made): Omit<Receipt, 'server' | 'chain'> {
  const { id, signedBy, status, placed, startTime, steps, revertedAt, revertReason } = row
  return {
    project: { id: row.projectId, name: oneLine(row.projectName) },
    target: targetOf(tx, row),
    deployment: {
      id,
      status: status === 'success' ? 'success' : 'failed',
      failedStep: status === 'success' ? null : (failedStep(steps)?.name ?? null),
      placed,
      startedAt: startTime,
      endedAt: row.endTime ?? issuedAt,
      issuedAt,
      late
    },
    actor: { name: oneLine(row.actor ?? 'unknown'), tokenId: row.tokenId },
    origin: {
      trigger: row.triggerSource,
      exact: row.exact,
      rollbackOf: row.rollbackOf,
      undoOf: row.undoOf,
      promotedFrom: row.promotedFrom,
      commit: row.provenance?.commit ?? null
    },
    reverted: revertedAt === null || revertReason === null ? null : { at: revertedAt, reason: revertReason },
    files,
    scripts: listOf(
      row.scripts.map(({ step, source, script, async }) => ({
        step,
        source,
        sha256: sha256(Buffer.from(script)).toString('hex'),
        exitCode: steps.find(({ name }) => name === step)?.exitCode ?? null,
        background: async
      }))
    ),
    checks: listOf(
      row.checks.map(({ check, ok, attempts }) => ({
        check: oneLine(withoutCommand.without(check)).slice(0, maxCheckLength),
        ok,
        attempts
      }))
    ),
    approvals: listOf(
      row.approvals.map(({ decision, name, tokenId, at, treeSha256 }) => {
        return { decision, name: oneLine(name), tokenId, at, treeSha256 }
      })
    ),
    nodes: nodesOf(tx, id),
    signers: listOf(signedBy.map(({ name, fingerprint }) => ({ name: oneLine(name), fingerprint }))),
    audit: auditOf(tx)
  }
}

/** Returns the target, also if nothing was put there; null if nodes have one each, or its path is not plain text. */
function targetOf(tx: Transaction, { id, projectId }: DeploymentRow): string | null {
  if (rolloutOfDeployment(tx, id) !== undefined) return null
  const target = targetOfDeployment(tx, id) ?? findProject(tx, projectId)?.deployPath ?? null
  return target !== null && oneLine(target) === target ? target : null
}

function nodesOf(db: Reader, deployId: string): Receipt['nodes'] {
  const rollout = rolloutOfDeployment(db, deployId)
  if (rollout === undefined) return null
  return listOf(namedPhases(db, rollout.id).map(({ node, phase }) => ({ node: oneLine(node), phase })))
}

/** Returns the root of the audit log at this moment; null while it has no tree. */
function auditOf(tx: Transaction): Receipt['audit'] {
  const tree = readAuditTree(tx)
  const frontier = tree.isPending ? null : readFrontier(tree)
  if (frontier === null || frontier.size === 0) return null
  return { size: frontier.size, root: rootOf(frontier).toString('hex') }
}

/** Returns what a receipt is about: the release, and the archive that it came in; otherwise only the deployment. */
function subjectsOf({ id, projectName, treeSha256, archiveSha256 }: DeploymentRow, dirHash: string | null) {
  const subjects: ReceiptSubject[] = []
  const release = { ...(treeSha256 !== null && { sha256: treeSha256 }), ...(dirHash !== null && { dirHash }) }
  if (treeSha256 !== null) subjects.push({ name: oneLine(projectName), digest: release as ReceiptSubject['digest'] })
  if (archiveSha256 !== null) subjects.push({ name: `${id}.zip`, digest: { sha256: archiveSha256 } })
  if (subjects.length === 0) subjects.push({ name: id, digest: { sha256: sha256(Buffer.from(id)).toString('hex') } })
  return subjects satisfies ReceiptStatement['subjects']
}
