import { notFound } from '../base/errors.js'
import { instant } from '../base/fields.js'
import { receiptsHeader } from '../core/proof/receipt-chain.js'
import { streamHeaders } from '../http/core/reply.js'
import { checkProject, type Handler, param, queryChoice, queryText } from './route.js'
import type { ApiServices } from './services.js'

/** Number of receipts that are read at once. */
const pageReceipts = 200

/** The forms of a receipt. */
export const receiptForms = ['receipt', 'result'] as const

/** Handlers of the receipts of deployments. */
export function receiptHandlers({ deployer, records, projects }: ApiServices) {
  return {
    /** `GET /api/deployments/:id/receipt`: the receipt of a deployment, or what it says as a verification result. */
    receipt: async request => {
      const { id } = records.find(request, param(request, 'id'))
      const form = queryChoice(request.query, 'form', receiptForms) ?? 'receipt'
      const text = form === 'receipt' ? await deployer.receipt(id) : await deployer.receiptResult(id)
      return {
        kind: 'bytes',
        status: 200,
        body: Buffer.from(text),
        headers: {
          'content-type': 'application/vnd.in-toto+dsse',
          'content-disposition': `attachment; filename="${id}.${form}.json"`
        }
      }
    },

    /** `GET /api/receipts`: the receipts that the caller may see, and the keys of the server, as lines. */
    list: ({ actor, query }) => {
      const projectId = queryText(query, 'projectId') ?? actor.projectId ?? undefined
      if (projectId !== undefined) {
        checkProject(actor, projectId, () => notFound('Project', projectId))
        projects.get(projectId)
      }
      const given = queryText(query, 'since')
      const since = given === undefined ? undefined : new Date(instant(given, 'since')).toISOString()
      const filter = { projectId, projects: actor.projects, since, limit: pageReceipts }
      return {
        kind: 'stream',
        status: 200,
        headers: {
          ...streamHeaders,
          'content-type': 'application/x-ndjson',
          'content-disposition': 'attachment; filename="svc-receipts.jsonl"'
        },
        async run(sink) {
          await sink.write(receiptsHeader(deployer.receiptKeys()))
          for (let after: string | undefined; ; ) {
            const page = deployer.receipts({ ...filter, after })
            after = page.at(-1)?.deployId
            if (after === undefined) return
            await sink.write(page.map(({ text }) => text).join(''))
          }
        }
      }
    }
  } satisfies Record<string, Handler>
}
