import { Refusal, invalid } from '../base/refusal.js'
import type { Deployer } from '../deploy/deployer.js'
import { json } from '../http/core/route.js'
import { strategies } from '../model/transfer.js'
import type { Quota } from '../machine/quota.js'
import type { Transfer } from '../transfer/transfer.js'
import { queryChoice, queryPath, queryText, switchText } from './query.js'
import type { Handler } from './route.js'
import { readUploadForm } from './upload-form.js'
import { throughStream, writeTo } from './write-to.js'

/** Dependencies of the handlers of export and import. */
export interface MigrationNeeds {
  transfer: Transfer
  deployer: Pick<Deployer, 'receive'>
  quota: Pick<Quota, 'claim' | 'recountLater'>
  /** For the file name of the package. */
  clock: { now(): number }
}

const maxRecent = 1_000_000

/** Handlers of export, import and verification (§2.14; docs/decisions.md, "Export, backup, upgrade"). */
export function migrationHandlers({ transfer, deployer, quota, clock }: MigrationNeeds) {
  return {
    /** `GET /api/migration/export`: streams a package, or writes it to the file `to`. */
    export: async ({ query, actor }) => {
      const plan = await transfer.export({
        projects: idsOf(query),
        artifacts: switchText(query.get('artifacts'), 'artifacts') ?? true,
        logs: switchText(query.get('logs'), 'logs') ?? true,
        recent: recentOf(query),
        ignore: query.getAll('ignore').filter(Boolean),
        ignoreBuiltin: switchText(query.get('ignoreBuiltin'), 'ignoreBuiltin') ?? true,
        actor
      })
      const to = queryPath(query, 'to')
      if (to !== undefined) {
        return writeTo(to, actor, async (file, { onBegin, ...writing }) => {
          onBegin(plan.expectedBytes)
          return { manifest: await plan.write(file, writing) }
        })
      }
      const at = new Date(clock.now()).toISOString().slice(0, 19).replaceAll(':', '-')
      return {
        kind: 'stream',
        status: 200,
        headers: {
          'content-type': 'application/zip',
          'content-disposition': `attachment; filename="svc-export-${at}.zip"`,
          'cache-control': 'no-store',
          'x-accel-buffering': 'no',
          'x-svc-expected-bytes': String(plan.expectedBytes)
        },
        run: sink => throughStream(sink, out => plan.write(out, { signal: sink.signal }))
      }
    },

    /** `POST /api/migration/import`: imports an uploaded package. */
    import: async request => {
      const { query, headers, actor, signal } = request
      const strategy = queryChoice(query, 'strategy', strategies) ?? 'skip-existing'
      const restoreArtifacts = switchText(query.get('restoreArtifacts'), 'restoreArtifacts') ?? true
      const accessSettings = switchText(query.get('accessSettings'), 'accessSettings') ?? false
      const dryRun = switchText(query.get('dryRun'), 'dryRun') ?? false
      if (strategy === 'overwrite' && headers['x-confirm-overwrite'] !== 'yes') throw unconfirmed()
      const claim = await quota.claim({ bytes: Number(headers['content-length'] ?? 0), projectId: null })
      const { received } = await readUploadForm(request, {
        // max_upload_size does not apply: a package contains the archives of many deployments.
        receive: bytes =>
          deployer.receive(bytes, { limitBytes: Number.MAX_SAFE_INTEGER, onLength: claim.grow, signal }),
        onField: () => {}
      }).finally(claim.release)
      try {
        const result = await transfer.import(received.path, {
          strategy,
          accessSettings,
          restoreArtifacts,
          dryRun,
          actor,
          signal
        })
        return json({ success: true, ...result })
      } finally {
        // The import added outputs and archives.
        quota.recountLater()
        // The import is done. If the file cannot be removed now, the next start removes it.
        await received.discard().catch(() => {})
      }
    },

    /** `GET /api/migration/verify`: checks the database and the targets. */
    verify: async () => json(await transfer.inspect())
  } satisfies Record<string, Handler>
}

function idsOf(query: URLSearchParams): string[] | null {
  const ids = (queryText(query, 'projects') ?? '')
    .split(',')
    .map(id => id.trim())
    .filter(Boolean)
  return ids.length === 0 ? null : ids
}

function recentOf(query: URLSearchParams): number | null {
  const given = queryText(query, 'recent')
  if (given === undefined) return null
  if (/^\d{1,7}$/.test(given) && Number(given) <= maxRecent) return Number(given)
  throw invalid('recent', `"recent" is "${given}": expected a number of deployments`)
}

function unconfirmed(): Refusal {
  const sentence = 'The package was not imported: the strategy "overwrite" needs the header "X-Confirm-Overwrite: yes"'
  return new Refusal('invalid', 'confirmation_needed', sentence, { field: 'X-Confirm-Overwrite' })
}
