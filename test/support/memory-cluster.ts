import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { Refusal } from '../../lib/base/errors.js'
import type { Call, Store, Transaction } from '../../lib/core/store/database.js'
import { freePort } from './free-port.js'
import { openStore } from '../../lib/core/store/durable-store.js'
import type { ListedHub } from '../../lib/cluster/hub-list.js'
import type { HubRole, ReplicatedStore, ReplicatedStoreOptions } from '../../lib/cluster/replicated-store.js'

/** The log of a cluster in the memory of a test, with a leader that the test chooses. */
export interface MemoryCluster {
  open(options: ReplicatedStoreOptions): Promise<ReplicatedStore>
  /** Makes a hub the leader; null: nobody leads. */
  lead(name: string | null): void
  /** Returns a hub, as the others know it. */
  peer(name: string): ListedHub
  /** Removes a hub, as "svc cluster forget" does. The hub itself does not hear of it. */
  forget(name: string): void
  /** Gives a hub an address at which nobody listens. */
  stopListening(name: string): Promise<void>
  /** Which hub was given which key of the cluster, and which key is in use. */
  expected: string[]
  /** Separates a hub from the log, or joins it again. */
  separate(name: string, isAlone: boolean): Promise<void>
}

interface Member {
  name: string
  url: string
  publicKey: string
  boot: string
  base: Store
  listeners: Set<(role: HubRole) => void>
  isAlone: boolean
  /** The writes that it has not applied yet. */
  behind: Call[][]
  applying: Promise<void>
  waiting: Set<() => void>
}

/** Creates a cluster without hubs. Every directory must contain the same database, or none. */
export function createMemoryCluster(): MemoryCluster {
  const members = new Map<string, Member>()
  const forgotten = new Set<string>()
  const expected: string[] = []
  let leader: string | null = null

  function roleOf(member: Member): HubRole {
    const found = leader === null || member.isAlone ? undefined : members.get(leader)
    const kind = member.name === leader ? 'leader' : found === undefined ? 'alone' : 'follower'
    return {
      kind: member.isAlone ? 'alone' : kind,
      leader: found === undefined ? null : { name: found.name, url: found.url },
      staleMs: kind === 'leader' ? 0 : 1500,
      sequence: member.base.sequence(),
      problem: null,
      reason: null,
      passes: false
    }
  }

  function tell(): void {
    for (const member of members.values()) for (const listener of member.listeners) listener(roleOf(member))
  }

  function apply(member: Member): Promise<void> {
    member.applying = member.applying.then(async () => {
      for (let calls = member.behind.shift(); calls !== undefined; calls = member.behind.shift()) {
        const these = calls
        await member.base.write(tx => these.forEach(({ sql, values }) => void tx.run(sql, ...values)))
      }
      for (const wake of member.waiting) wake()
    })
    return member.applying
  }

  function listed({ name, url, publicKey, boot, base }: Member): ListedHub {
    return { name, url, publicKey, boot, applied: base.sequence(), seenAt: new Date().toISOString() }
  }

  function find(name: string): ListedHub | null {
    const member = members.get(name)
    return member === undefined || forgotten.has(name) ? null : listed(member)
  }

  function storeOf(member: Member): ReplicatedStore {
    const { base } = member
    return {
      ...base,
      peers: { find, isFresh: () => true },
      async write(work) {
        const { kind } = roleOf(member)
        if (kind === 'follower') throw new Refusal('unavailable', 'not_leader', 'Another hub leads')
        if (kind === 'alone') throw new Refusal('unavailable', 'no_leader', 'Nobody leads', { retryAfterSeconds: 2 })
        const calls: Call[] = []
        const result = await base.write(tx => work(recording(tx, calls)))
        if (calls.length > 0) {
          for (const other of members.values()) {
            if (other === member) continue
            other.behind.push(calls)
            if (!other.isAlone) void apply(other)
          }
        }
        for (const wake of member.waiting) wake()
        return result
      },
      role: () => roleOf(member),
      onRole(listener) {
        member.listeners.add(listener)
        return () => void member.listeners.delete(listener)
      },
      async reached(sequence, signal) {
        while (base.sequence() < sequence) {
          signal.throwIfAborted()
          await new Promise<void>((resolve, reject) => {
            member.waiting.add(resolve)
            signal.addEventListener('abort', () => reject(signal.reason), { once: true })
          })
        }
      },
      hubs: async () => [...members.values()].map(listed),
      async forgetHub(name) {
        members.delete(name)
      },
      async expectKey(key) {
        expected.push(`${member.name} ${key.toString('hex')}`)
      },
      async rekey(key, holders) {
        expected.push(`${member.name} uses ${key.toString('hex')} for ${holders.map(({ name }) => name).join(', ')}`)
      },
      renewEtcd() {},
      async resign() {
        if (leader !== member.name) return
        leader = null
        tell()
      },
      async close() {
        await member.applying
        members.delete(member.name)
        await base.close()
      }
    }
  }

  return {
    async open({ directory, hub, clock }) {
      const base = await openStore({ directory, ...(clock && { clock }) })
      const member: Member = {
        ...hub,
        base,
        listeners: new Set(),
        isAlone: false,
        behind: [],
        applying: Promise.resolve(),
        waiting: new Set()
      }
      members.set(hub.name, member)
      return storeOf(member)
    },
    expected,
    peer: name => find(name) as ListedHub,
    forget: name => void forgotten.add(name),
    lead(name) {
      leader = name
      tell()
    },
    async stopListening(name) {
      ;(members.get(name) as Member).url = `http://127.0.0.1:${await freePort()}`
    },
    async separate(name, isAlone) {
      const member = members.get(name) as Member
      member.isAlone = isAlone
      if (!isAlone) await apply(member)
      tell()
    }
  }
}

function recording(tx: Transaction, calls: Call[]): Transaction {
  return {
    get: (sql, ...values) => tx.get(sql, ...values),
    all: (sql, ...values) => tx.all(sql, ...values),
    run(sql, ...values) {
      const changed = tx.run(sql, ...values)
      calls.push({ sql, values })
      return changed
    }
  }
}

/** Copies a data directory, so that another hub begins with the same database. */
export function copyHome(from: string, to: string): void {
  mkdirSync(to, { mode: 0o700 })
  for (const name of ['svc.db']) cpSync(join(from, name), join(to, name))
}
