/* Keys that sign releases, and the signatures of a release, as svc keeps them. */
import type { Instant } from './scalars.js'

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
