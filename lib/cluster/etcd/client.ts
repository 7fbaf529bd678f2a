/*
 * The operations of etcd that svc uses, as its JSON gateway calls them. Keys are text here; values are bytes. Numbers of
 * 64 bits travel as text: revisions fit a number of JavaScript, ids of leases do not.
 */
import { type AskOptions, type EtcdConnection, EtcdError } from './connection.js'

export interface KeyValue {
  key: string
  value: Buffer
  createRevision: number
  modRevision: number
}

/** What is read: a key, or the keys from `key` to below `end`. */
export interface RangeRequest {
  key: string
  end?: string
  limit?: number
  isDescending?: boolean
  isKeysOnly?: boolean
  /** Whether the member may answer from what it has, without asking a majority. */
  isSerializable?: boolean
}

/** The keys that were found, and the revision of etcd at that moment. */
export interface RangeAnswer {
  keys: KeyValue[]
  revision: number
}

/** An operation of a transaction. */
export type Operation =
  | { put: string; value: Buffer; lease?: string; keepsLease?: boolean }
  | { delete: string; end?: string }
  | { range: RangeRequest }

/** A condition of a transaction: the key was created, or last changed, at this revision, and 0: it does not exist. */
export type Condition = { key: string; createRevision: number } | { key: string; modRevision: number }

export interface TransactionAnswer {
  succeeded: boolean
  revision: number
  /** What the ranges among the operations found, in order. */
  ranges: KeyValue[][]
}

/** A change that a watch reports. */
export interface WatchEvent {
  isDeleted: boolean
  key: string
  value: Buffer
  createRevision: number
  modRevision: number
}

/** Operations of etcd. All throw `EtcdError` and `Unreachable`. */
export type EtcdClient = ReturnType<typeof createEtcdClient>

export interface WatchOptions {
  take: (events: WatchEvent[]) => void | Promise<void>
  signal: AbortSignal
}

/** Returns the end of the range of all keys that begin with `prefix`, which is ASCII text. */
export function endOfPrefix(prefix: string): string {
  return prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1)
}

/** Creates a client on connections. */
export function createEtcdClient(connection: EtcdConnection) {
  return {
    async range(request: RangeRequest, options?: AskOptions): Promise<RangeAnswer> {
      const answer = (await connection.ask('/v3/kv/range', rangeOf(request), options)) as EncodedRange
      return { keys: keysOf(answer), revision: revisionOf(answer) }
    },
    /** Runs `then` if all conditions hold, else `otherwise`. */
    async transact(
      { when, then, otherwise = [] }: { when: Condition[]; then: Operation[]; otherwise?: Operation[] },
      options?: AskOptions
    ): Promise<TransactionAnswer> {
      const body = {
        compare: when.map(compareOf),
        success: then.map(operationOf),
        failure: otherwise.map(operationOf)
      }
      const answer = (await connection.ask('/v3/kv/txn', body, options)) as EncodedTransaction
      const ranges = (answer.responses ?? []).flatMap(({ response_range: range }) =>
        range === undefined ? [] : [keysOf(range)]
      )
      return { succeeded: answer.succeeded ?? false, revision: revisionOf(answer), ranges }
    },
    async put(key: string, value: Buffer, options?: AskOptions): Promise<void> {
      await connection.ask('/v3/kv/put', putOf({ put: key, value }), options)
    },
    async delete(key: string, end?: string, options?: AskOptions): Promise<void> {
      await connection.ask('/v3/kv/deleterange', boundsOf(key, end), options)
    },
    /** Returns the id of a new lease. */
    async grantLease(seconds: number, options?: AskOptions): Promise<string> {
      const answer = await connection.ask('/v3/lease/grant', { TTL: seconds }, options)
      return String(answer['ID'])
    },
    /** Returns the seconds for which the lease is valid now; 0 if it has ended. */
    async renewLease(id: string, options?: AskOptions): Promise<number> {
      const answer = await connection.ask('/v3/lease/keepalive', { ID: id }, options)
      return Number((answer['result'] as { TTL?: string } | undefined)?.TTL ?? 0)
    },
    async revokeLease(id: string, options?: AskOptions): Promise<void> {
      await connection.ask('/v3/lease/revoke', { ID: id }, options)
    },
    /** Forgets earlier values of keys. The present ones stay. */
    async compact(revision: number, options?: AskOptions): Promise<void> {
      await connection.ask('/v3/kv/compaction', { revision: String(revision) }, options)
    },
    /** Returns the bytes that etcd's database uses. */
    async usedBytes(options?: AskOptions): Promise<number> {
      const answer = await connection.ask('/v3/maintenance/status', {}, options)
      return Number(answer['dbSizeInUse'] ?? answer['dbSize'] ?? 0)
    },
    /**
     * Reports the changes of the keys from `key` to below `end` from a revision on. Resolves when etcd ends it; throws an
     * `EtcdError` with `isCompacted` if the revision was compacted.
     */
    async watch(
      { key, end, from }: { key: string; end: string; from: number },
      { take, signal }: WatchOptions
    ): Promise<void> {
      const body = { create_request: { ...boundsOf(key, end), start_revision: String(from) } }
      await connection.stream('/v3/watch', body, {
        signal,
        async take(line) {
          const { result, error } = line as EncodedWatch
          if (error !== undefined) throw new EtcdError(error.grpc_code ?? error.code ?? 14, error.message ?? '')
          if (result?.canceled === true) throw cancelled(result)
          const events = (result?.events ?? []).map(eventOf)
          if (events.length > 0) await take(events)
        }
      })
    }
  }
}

function cancelled({ compact_revision: compacted, cancel_reason: reason }: EncodedWatched): EtcdError {
  const isCompacted = compacted !== undefined && compacted !== '0'
  return isCompacted
    ? new EtcdError(11, 'required revision has been compacted')
    : new EtcdError(/permission|auth|token/.test(reason ?? '') ? 16 : 14, reason ?? 'the watch was cancelled')
}

interface EncodedKeyValue {
  key?: string
  value?: string
  create_revision?: string
  mod_revision?: string
}

interface EncodedRange {
  header?: { revision?: string }
  kvs?: EncodedKeyValue[]
}

interface EncodedTransaction {
  header?: { revision?: string }
  succeeded?: boolean
  responses?: Array<{ response_range?: EncodedRange }>
}

interface EncodedWatched {
  canceled?: boolean
  compact_revision?: string
  cancel_reason?: string
  events?: Array<{ type?: string; kv?: EncodedKeyValue }>
}

interface EncodedWatch {
  result?: EncodedWatched
  error?: { grpc_code?: number; code?: number; message?: string }
}

function encode(text: string): string {
  return Buffer.from(text).toString('base64')
}

function boundsOf(key: string, end: string | undefined): object {
  return { key: encode(key), ...(end !== undefined && { range_end: encode(end) }) }
}

function rangeOf({ key, end, limit, isDescending, isKeysOnly, isSerializable }: RangeRequest): object {
  return {
    ...boundsOf(key, end),
    ...(limit !== undefined && { limit: String(limit) }),
    ...(isDescending === true && { sort_order: 'DESCEND', sort_target: 'KEY' }),
    ...(isKeysOnly === true && { keys_only: true }),
    ...(isSerializable === true && { serializable: true })
  }
}

function putOf({ put, value, lease, keepsLease }: Extract<Operation, { put: string }>): object {
  return {
    key: encode(put),
    value: value.toString('base64'),
    ...(lease !== undefined && { lease }),
    ...(keepsLease && { ignore_lease: true })
  }
}

function compareOf(condition: Condition): object {
  const key = encode(condition.key)
  return 'createRevision' in condition
    ? { key, target: 'CREATE', result: 'EQUAL', create_revision: String(condition.createRevision) }
    : { key, target: 'MOD', result: 'EQUAL', mod_revision: String(condition.modRevision) }
}

function operationOf(operation: Operation): object {
  if ('put' in operation) return { request_put: putOf(operation) }
  if ('delete' in operation) return { request_delete_range: boundsOf(operation.delete, operation.end) }
  return { request_range: rangeOf(operation.range) }
}

function revisionOf(answer: { header?: { revision?: string } }): number {
  return Number(answer.header?.revision ?? 0)
}

function keyValueOf({ key, value, create_revision: created, mod_revision: changed }: EncodedKeyValue): KeyValue {
  return {
    key: Buffer.from(key ?? '', 'base64').toString(),
    value: Buffer.from(value ?? '', 'base64'),
    createRevision: Number(created ?? 0),
    modRevision: Number(changed ?? 0)
  }
}

function keysOf({ kvs = [] }: EncodedRange): KeyValue[] {
  return kvs.map(keyValueOf)
}

function eventOf({ type, kv = {} }: { type?: string; kv?: EncodedKeyValue }): WatchEvent {
  return { isDeleted: type === 'DELETE', ...keyValueOf(kv) }
}
