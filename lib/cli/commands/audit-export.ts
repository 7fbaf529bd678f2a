import { open, rename, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import { keptFailures } from '../../audit/tree.js'
import { createExportVerifier, type Verdict } from '../../audit/verifier.js'
import { formatBytes } from '../../shared/size.js'
import { auditSentence, missingSentences } from '../audit-sentence.js'
import type { Client } from '../client/client.js'
import { openAdmin } from '../client/session.js'
import { explain } from '../client/files.js'
import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, adminOptions, sharedOptions } from '../common-options.js'
import { withInterrupts } from '../terminal/prompt.js'

/** Time limit for the beginning of the answer: the server may have to sign a checkpoint first. */
const answerLimitMs = 5 * 60_000
const fileMode = 0o600

/** The command `svc audit export`. */
export const command = defineCommand({
  operands: {},
  options: {
    out: { type: 'text', value: 'file', help: 'file to write (default ./svc-audit-<timestamp>.jsonl)' },
    from: { type: 'count', value: 'number', minimum: 1, help: 'number of the first entry; default: 1' },
    to: { type: 'count', value: 'number', minimum: 1, help: 'number of the last entry; default: the newest' },
    ...adminOptions,
    json: sharedOptions.json
  },
  details:
    'The file has a JSON line for each entry, and what proves that the entries are those of the log: the hashes of\n' +
    'removed and omitted entries, and a checkpoint that the server signed. It is verified at once; "svc audit verify"\n' +
    `verifies it again anywhere, without a server. Only you can read the file.\n\n${adminDetails}`,
  examples: [
    ['audit export', 'export the whole log to a file in the current directory'],
    ['audit export --from 4000 --out last.jsonl', 'export the entries from number 4000 on']
  ],
  async run({ options }, context) {
    const { from, to, json } = options
    const at = new Date().toISOString().slice(0, 19).replaceAll(':', '-')
    const path = resolve(context.cwd, options.out ?? `svc-audit-${at}.jsonl`)
    const { api } = await openAdmin(context, options)
    const query = { from: from?.toString(), to: to?.toString() }
    const { output } = context
    const bar = output.progress('Exporting')
    try {
      const { bytes, verdict } = await withInterrupts(context.host, signal =>
        download(api.client, { query, path, signal, onBytes: count => bar.update(count, count) })
      )
      const isGood = verdict.faults.length === 0
      bar.end(`Exported ${auditSentence(verdict)} (${formatBytes(bytes)})`)
      for (const line of missingSentences(verdict).removed) output.note(line)
      for (const fault of verdict.faults) output.error(fault)
      if (json) output.json({ path, ok: isGood, ...verdict })
      else output.print(path)
      return isGood ? exitCodes.success : exitCodes.failed
    } catch (error) {
      bar.clear()
      throw error
    }
  }
})

interface Download {
  query: Record<string, string | undefined>
  path: string
  signal: AbortSignal
  onBytes(count: number): void
}

/** Writes the export to a temporary file beside `path`, verifies it meanwhile, and renames it once it is complete. */
async function download(
  client: Client,
  { query, path, signal, onBytes }: Download
): Promise<{ bytes: number; verdict: Verdict }> {
  const waiting = `${path}.part`
  const verifier = createExportVerifier({ keepsFailures: keptFailures })
  let bytes = 0
  const call = { path: '/api/audit/export', query, accept: 'application/x-ndjson', answerLimitMs, signal } as const
  const answer = await client.open(call)
  try {
    // Writing to an existing file would keep its mode, which may let other users read it.
    await rm(waiting, { force: true })
    const file = await open(waiting, 'wx', fileMode)
    try {
      for await (const chunk of answer as AsyncIterable<Buffer>) {
        await file.writeFile(chunk)
        verifier.push(chunk)
        onBytes((bytes += chunk.length))
      }
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(waiting, path)
    return { bytes, verdict: verifier.end() }
  } catch (error) {
    answer.destroy()
    await rm(waiting, { force: true })
    signal.throwIfAborted()
    throw explain(error, { what: 'export', nothing: 'Nothing was exported' })
  }
}
