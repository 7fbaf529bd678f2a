import type { FinalStatus, RanScript, RevertReason, StepName, TriggerSource } from './deployment.js'
import type { NodePhase } from './rollout.js'
import type { Instant } from './scalars.js'

/** A list of which only the digest is in a receipt: the SHA-256 of its lines. */
export interface DigestedList {
  count: number
  /** SHA-256 of the lines, each with a newline. */
  sha256: string
}

/** A list that is in a receipt, shortened until it fits. `sha256` covers all items: each as a line of JSON. */
export interface ShortenedList<T> extends DigestedList {
  items: T[]
}

/** What a deployment did to the files of its target. */
export interface ReceiptFiles {
  /** Number of files and links that it put in place. */
  placed: number
  /** Lines as sha256sum writes them, by path: files and links that were not there before. */
  added: DigestedList
  /** The same for those whose contents differed. */
  changed: DigestedList
  /** Paths. */
  removed: DigestedList
}

/** A script of a deployment, without its text. */
export interface ReceiptScript {
  step: RanScript['step']
  source: RanScript['source']
  /** SHA-256 of its text. */
  sha256: string
  /** Null: it was still running, or did not end by itself. */
  exitCode: number | null
  background: boolean
}

/** A check of a deployment. */
export interface ReceiptCheck {
  check: string
  ok: boolean
  attempts: number
}

/** A decision about a deployment. */
export interface ReceiptApproval {
  decision: 'approved' | 'rejected'
  name: string
  tokenId: string | null
  at: Instant
  treeSha256: string | null
}

/** A node that a deployment was rolled out to. */
export interface ReceiptNode {
  node: string
  phase: NodePhase
}

/** A key that signed the release. */
export interface ReceiptSigner {
  name: string
  fingerprint: string
}

/** What a server says about a deployment that has finished: the predicate of its receipt. */
export interface Receipt {
  server: {
    /** Fingerprint of the key that signs the receipt. */
    key: string
    /** The 32 bytes of that key in base64. */
    publicKey: string
    /** The name of the server's audit log, which stays when the key is replaced. */
    origin: string
    /** The version of svc. */
    version: string
  }
  /** The place in the receipts of the project. */
  chain: {
    /** From 1 on. */
    number: number
    /** SHA-256 of the receipt before, as a file. Null for the first one. */
    previous: string | null
  }
  project: { id: string; name: string }
  /** The target directory. Null if its path is too long for a receipt. */
  target: string | null
  deployment: {
    id: string
    status: FinalStatus
    /** The step at which it failed. */
    failedStep: StepName | null
    /** Number of the change to the target. Null: the target is as before. */
    placed: number | null
    startedAt: Instant
    endedAt: Instant
    /** When the receipt was made. */
    issuedAt: Instant
    /** Whether a later start of the server made the receipt. */
    late: boolean
  }
  actor: { name: string; tokenId: string | null }
  origin: {
    trigger: TriggerSource
    exact: boolean
    rollbackOf: string | null
    undoOf: string | null
    promotedFrom: string | null
    /** The commit as its client claimed it. */
    commit: string | null
  }
  /** When and why the earlier files were put back. Null: they were not. */
  reverted: { at: Instant; reason: RevertReason } | null
  /** Null if nothing was put in place here. */
  files: ReceiptFiles | null
  scripts: ShortenedList<ReceiptScript>
  checks: ShortenedList<ReceiptCheck>
  approvals: ShortenedList<ReceiptApproval>
  /** Null if the project is not on nodes. */
  nodes: ShortenedList<ReceiptNode> | null
  /** The keys whose signatures of the release the server accepted. */
  signers: ShortenedList<ReceiptSigner>
  /** The audit log at that moment. Null while it has no tree. */
  audit: {
    /** Number of entries. */
    size: number
    /** The root of its tree in hexadecimal. */
    root: string
  } | null
}

/** What a receipt is about. */
export interface ReceiptSubject {
  /** The name of the project, or of the archive. */
  name: string
  digest: {
    /** For the project: SHA-256 of the list of files of the release. */
    sha256: string
    /** SHA-256 of what sha256sum prints for the files of the release, sorted by path. */
    dirHash?: string
  }
}

/** A receipt, and what it is about. */
export interface ReceiptStatement {
  subjects: ReceiptSubject[]
  receipt: Receipt
}

/** Properties of a deployment that a verification result states. */
const receiptProperties = ['SIGNED', 'EXACT', 'GATED', 'APPROVED', 'REVERTED'] as const
/** A property of a deployment. */
export type ReceiptProperty = (typeof receiptProperties)[number]

/** Returns the properties of a deployment that are true. A failed one is at most `REVERTED`. */
export function propertiesOf({ deployment, origin, checks, approvals, signers, reverted }: Receipt): ReceiptProperty[] {
  const isGood = deployment.status === 'success'
  const isTrue: Record<ReceiptProperty, boolean> = {
    SIGNED: isGood && signers.count > 0,
    EXACT: isGood && origin.exact,
    // A deployment with a failed check does not succeed.
    GATED: isGood && checks.count > 0,
    APPROVED: isGood && approvals.items.some(({ decision }) => decision === 'approved'),
    REVERTED: reverted !== null
  }
  return receiptProperties.filter(property => isTrue[property])
}
