import { instantOf } from '../base/clock.js'
import { oneOf } from '../base/fields.js'
import { oneLine } from '../base/text.js'
import { Refusal, invalid } from '../base/errors.js'
import type { Deployer } from '../deploy/deployer.js'
import { json } from '../http/core/route.js'
import { strategies } from '../model/transfer.js'
import type { Quota } from '../machine/quota.js'
import type { Transfer } from '../transfer/transfer.js'
import { queryPath, queryText, switchText } from './query.js'
import type { Handler } from './route.js'
import { readUploadForm } from './upload-form.js'
import { throughBytes, throughStream, writeTo } from './write-to.js'

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
      const at = instantOf(clock).slice(0, 19).replaceAll(':', '-')
      return {
        kind: 'stream',
        status: 200,
        heldBytes: throughBytes,
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
      for (const name of query.keys()) checkName(name)
      const isConfirmed = headers['x-confirm-overwrite'] === 'yes'
      // What the query says is checked before the package is received.
      if (importOptions(query, new Map()).strategy === 'overwrite' && !isConfirmed) throw unconfirmed()
      const claim = await quota.claim({ bytes: Number(headers['content-length'] ?? 0), projectId: null })
      const { received, fields } = await readUploadForm(request, {
        // max_upload_size does not apply: a package contains the archives of many deployments.
        receive: bytes =>
          deployer.receive(bytes, { limitBytes: Number.MAX_SAFE_INTEGER, onLength: claim.grow, signal }),
        onField(name, value) {
          checkName(name)
          importOptions(query, new Map([[name, value]]))
        }
      }).finally(claim.release)
      try {
        const options = importOptions(query, fields)
        if (options.strategy === 'overwrite' && !isConfirmed) throw unconfirmed()
        const result = await transfer.import(received.path, { ...options, actor, signal })
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

const switches = { restoreArtifacts: true, accessSettings: false, dryRun: false } as const
const optionNames = ['strategy', ...Object.keys(switches)]

/** Refuses an unknown name: an option that is ignored would change more than was meant. A ticket authorizes the request. */
function checkName(name: string): void {
  if (optionNames.includes(name) || name === 'ticket') return
  throw invalid(name, `"${oneLine(name)}" is unknown: expected ${optionNames.join(', ')}`)
}

/** Reads the options of an import, which may be in the query or in the form. Refuses two different values. */
function importOptions(query: URLSearchParams, form: ReadonlyMap<string, string>) {
  const valuesOf = (name: string): string[] => [
    ...query.getAll(name),
    ...(form.has(name) ? [form.get(name) ?? ''] : [])
  ]
  const read = <T>(name: string, reader: (given: string) => T | undefined): T | undefined => {
    const given = valuesOf(name).flatMap(value => reader(value) ?? [])
    if (new Set(given).size > 1) throw invalid(name, `"${name}" is given twice, with different values`)
    return given[0]
  }
  const readSwitch = (name: keyof typeof switches): boolean =>
    read(name, given => switchText(given, name)) ?? switches[name]
  return {
    strategy:
      read('strategy', given => (given === '' ? undefined : oneOf(strategies)(given, 'strategy'))) ?? 'skip-existing',
    restoreArtifacts: readSwitch('restoreArtifacts'),
    accessSettings: readSwitch('accessSettings'),
    dryRun: readSwitch('dryRun')
  }
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
