/*
 * What a client signs about a release: an in-toto statement, version 1, about the tree of its files. The server reads it in
 * core/proof/statement.ts.
 */
import type { StatedRelease } from '../base/shared/statement-text.js'
import type { Readers } from './readers.js'
import type { Instant } from './scalars.js'

/** The namespace of SSH signatures (sshsig, "namespace"). */
export const signingNamespace = 'svc-deploy'
/** Maximum size of a statement. */
export const maxStatementBytes = 256 * 1024
/** Maximum number of signatures, and of one of them. */
export const maxSignatures = 16
/** Maximum size of one signature. */
export const maxSignatureBytes = 16 * 1024
/** Maximum size of a list of components. */
export const maxSbomBytes = 10 * 1024 * 1024
/** The scripts of an upload, and their digests. */
export const statedScripts = ['preDeploy', 'postDeploy'] as const

/** What a statement says. */
export type Statement = StatedRelease

/** What the record of a deployment says about its statement. The client claims it; only `signedBy` is verified. */
export interface StatementClaim {
  /** SHA-256 checksum of the statement. */
  sha256: string
  /** Grows with each release of the project. */
  sequence: number
  /** When it is accepted no longer. Null: it always is. */
  notAfter: Instant | null
  /** The program and the machine that made it. */
  builder: string | null
  /** SHA-256 checksum of the list of components. Null if there is none. */
  sbomSha256: string | null
}

/** A key that signed a release. @schema SignedBy */
export interface SignedBy {
  /** The id of the key, or its fingerprint if it is in the server's own list. */
  key: string
  name: string
  /** As ssh-keygen shows it. */
  fingerprint: string
}

/** Who reads them. */
export const claimReaders: Readers<StatementClaim> = {
  fields: {
    sha256: 'everybody',
    sequence: 'everybody',
    notAfter: 'everybody',
    builder: 'everybody',
    sbomSha256: 'everybody'
  }
}
/** Who reads them. */
export const signedByReaders: Readers<SignedBy[]> = {
  items: { fields: { key: 'everybody', name: 'everybody', fingerprint: 'everybody' } }
}

/** What is sent beside the files of a release. */
export interface Attached {
  statement?: string
  signatures?: readonly string[]
  /** The list of its components. */
  sbom?: Uint8Array
}

/* Keys that sign releases, and the signatures of a release, as svc keeps them. */

/** Which tool signs with a key. */
export const keyKinds = ['ssh', 'minisign', 'svc'] as const
/** Which tool signs with a key. */
export type KeyKind = (typeof keyKinds)[number]

/** A key that may sign releases. @schema SigningKey */
export interface SigningKey {
  id: string
  /** The tool that signs with it: `ssh-keygen`, `minisign`, or `svc` itself. */
  kind: KeyKind
  /** The public key, as its tool writes it. */
  public: string
  /** As ssh-keygen shows it. */
  fingerprint: string
  name: string
  /** The projects whose releases it may sign. Null: all. */
  projectIds: string[] | null
  /** From when it may sign. */
  notBefore: Instant | null
  /** Until when it may sign. */
  notAfter: Instant | null
  /** From when on what it has signed is not accepted. What was accepted before stays valid. */
  revokedAt: Instant | null
  createdAt: Instant
}

/** A key of the file `keys/allowed_signers`. @schema FileKey */
export type FileKey = Pick<SigningKey, 'kind' | 'fingerprint' | 'name' | 'notBefore' | 'notAfter'>

/** The file `keys/allowed_signers`, if the server takes only releases that one of its keys has signed. @schema SignersFile */
export interface SignersFile {
  keys: FileKey[]
  /** Why it cannot be used. Then every release is refused. */
  problem: string | null
}

/** The statement of a release and its signatures, as the client sent them. */
export interface Attestation {
  deployId: string
  statement: string
  signatures: string[]
  /** When this server accepted them first: a rollback is judged by the time of its release. */
  acceptedAt: Instant
}
