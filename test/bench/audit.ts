/*
 * The Merkle tree of the audit log. How much longer a durable audit write takes than one without the tree, with 100,000
 * entries present; and how long `svc audit verify` takes for 100,000 entries, against `sha256sum` of the same file. Both
 * verifications are processes.
 *
 *   node audit.js
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { entryOf, writeLeaf } from '../../lib/core/audit/audit.js'
import { checkTree, Keeper, type SignedCheckpoint } from '../../lib/core/audit/keeper.js'
import { exportAudit } from '../../lib/core/audit/export.js'
import { ExportVerifier } from '../../lib/core/audit/verifier.js'
import { systemClock } from '../../lib/base/clock.js'
import { randomIds } from '../../lib/base/digests.js'
import type { AuditEntry } from '../../lib/model/audit.js'
import type { Store, Transaction } from '../../lib/core/store/database.js'
import { openStore } from '../../lib/core/store/durable-store.js'
import { insertAudit } from '../../lib/core/store/tables/audit.js'
import { compare, machine, sized } from '../support/bench.js'
import { findProgram } from '../support/programs.js'
import { svcPath } from '../support/svc.js'
import { createServerKey } from '../../lib/core/audit/signed-note.js'

const present = sized(100_000, 200)
const batch = sized(5000, 100)
/** Writes of each kind in one round. They alternate, so that the noise of the disk meets both. */
const writes = sized(400, 4)
const pieceBytes = 1024 * 1024

function anEntry(): AuditEntry {
  const id = 'proj_1a2b3c4d5e6f7a8b'
  const actor = {
    name: 'token:ci-shop',
    ip: '192.0.2.7',
    role: 'admin',
    token: { id: 'tok_1a2b3c4d', name: 'ci-shop' }
  }
  const event = { action: 'project.update', actor, projectId: id, target: id, detail: 'name, description' }
  return entryOf(event, randomIds.id('aud_'), Date.now())
}

async function fill(store: Store): Promise<void> {
  for (let from = 0; from < present; from += batch) {
    await store.write(tx => {
      for (let n = 0; n < batch; n++) writeLeaf(tx, anEntry())
    })
  }
}

/** Returns the microseconds of one durable write of each kind, measured in turns. */
async function measureWrites(store: Store): Promise<{ plain: number; leaf: number }> {
  const spent = { plain: 0, leaf: 0 }
  const timed = async (kind: 'plain' | 'leaf', work: (tx: Transaction) => unknown): Promise<void> => {
    const from = performance.now()
    await store.write(tx => void work(tx))
    spent[kind] += performance.now() - from
  }
  for (let n = 0; n < writes; n++) {
    const [one, other] = [anEntry(), anEntry()]
    const plain = () => timed('plain', tx => insertAudit(tx, one))
    const leaf = () => timed('leaf', tx => writeLeaf(tx, other))
    for (const run of n % 2 === 0 ? [plain, leaf] : [leaf, plain]) await run()
  }
  return { plain: (spent.plain / writes) * 1000, leaf: (spent.leaf / writes) * 1000 }
}

async function compareWrites(store: Store): Promise<void> {
  let measured: { plain: number; leaf: number } | null = null
  const figure = (kind: 'plain' | 'leaf') => async (): Promise<number> => {
    // Both figures of a round come from the same measurement.
    const found: { plain: number; leaf: number } = measured ?? (await measureWrites(store))
    measured = measured === null ? found : null
    return found[kind]
  }
  await compare({
    name: 'a durable audit write',
    unit: 'us',
    rounds: 9,
    contestants: { 'with the tree': figure('leaf'), 'without it': figure('plain') },
    goals: [{ beside: 'without it', atMost: 1.05 }]
  })
}

async function compareVerify(directory: string, store: Store): Promise<void> {
  const onError = (error: unknown): never => {
    throw error
  }
  const key = createServerKey(join(directory, 'keys'))
  const keeper = new Keeper({ store, clock: systemClock, ids: randomIds, key, onError })
  const checkpoint = (await keeper.current()) as SignedCheckpoint
  const path = join(directory, 'audit.jsonl')
  const file = await open(path, 'w')
  for await (const piece of exportAudit(store, checkpoint, { from: 1, to: checkpoint.size })) await file.write(piece)
  await file.close()
  const seconds = (program: string, words: string[]): number => {
    const from = performance.now()
    const { status, stderr } = spawnSync(program, words, { stdio: ['ignore', 'ignore', 'pipe'] })
    if (status !== 0) throw new Error(`${program}: ${String(stderr)}`)
    return (performance.now() - from) / 1000
  }
  const within = async (): Promise<number> => {
    const from = performance.now()
    const verifier = new ExportVerifier()
    const handle = await open(path)
    for (let at = 0; ; ) {
      const { bytesRead, buffer } = await handle.read({ buffer: Buffer.allocUnsafe(pieceBytes), position: at })
      if (bytesRead === 0) break
      at += bytesRead
      verifier.push(buffer.subarray(0, bytesRead))
    }
    await handle.close()
    if (verifier.end().faults.length > 0) throw new Error('The export is not verified')
    return (performance.now() - from) / 1000
  }
  const check = async (): Promise<number> => {
    const from = performance.now()
    const fault = await checkTree(store)
    if (fault !== null) throw new Error(fault.why)
    return (performance.now() - from) / 1000
  }
  const isHere = findProgram('sha256sum') !== null
  await compare({
    name: `verification of ${checkpoint.size} entries, ${Math.round(statSync(path).size / 1e6)} MB`,
    unit: 's',
    contestants: {
      'svc audit verify': () => seconds(process.execPath, [svcPath, 'audit', 'verify', path]),
      sha256sum: isHere ? () => seconds('sha256sum', [path]) : null,
      'openssl dgst -sha256':
        findProgram('openssl') !== null ? () => seconds('openssl', ['dgst', '-sha256', path]) : null,
      'the verifier, without the start of a process': within,
      'the check at the start of the server': check
    },
    goals: [{ beside: 'sha256sum', atMost: 3 }]
  })
}

const directory = mkdtempSync(fileURLToPath(new URL('../../bench-audit-', import.meta.url)))
try {
  console.log(machine())
  const store = await openStore({ directory })
  await fill(store)
  await compareVerify(directory, store)
  await compareWrites(store)
  await store.close()
} finally {
  rmSync(directory, { recursive: true, force: true })
}
