import { Refusal } from '../../base/errors.js'
import { type Answer, parseJson, readText, isBroken, streamBroken } from '../client/answer.js'
import type { Call } from '../client/client.js'
import { openAdmin } from '../client/session.js'
import { type Context, defineCommand, type Family, option, usage } from '../command.js'
import { adminDetails, adminOptions } from '../common-options.js'
import { readInput, withInterrupts } from '../terminal/prompt.js'

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
/** The server takes no larger JSON. */
const maxDataBytes = 1024 * 1024
/** Maximum size of an answer that is read as a whole for a terminal. */
const maxShownBytes = 64 * 1024 * 1024
/** A route may read every file of a target before it answers. */
const answerLimitMs = 60 * 60_000

/** The command for requests that no other command sends. */
export const commands = {
  api: defineCommand({
    operands: {
      method: { required: true, help: 'GET, POST, PUT, PATCH or DELETE' },
      path: { required: true, help: 'path of the API with its query, like /api/projects' }
    },
    options: {
      data: option('json', 'the body, as JSON; "-" reads it from standard input', { alias: 'd' }),
      ...adminOptions
    },
    details:
      'docs/api.md and docs/openapi.json describe the API. On a terminal JSON is shown with indents. A pipe or a file\n' +
      'gets the answer as the server sends it: JSON, JSON lines and event streams while they arrive, and downloads.\n' +
      'If the server refuses, its sentence is on standard error and the exit code is 1. The server decides what the\n' +
      `token may do.\n\n${adminDetails('viewer')}`,
    examples: [
      ['api GET /api/projects', 'print the projects as JSON'],
      ['api POST /api/tokens --data - < token.json', 'send a body that is in a file'],
      ['api GET /api/audit/export > audit.ndjson', 'keep a stream in a file']
    ],
    async run({ options, operands }, context) {
      const call = { ...requestOf(operands), ...(await bodyOf(context, operands.method, options.data)) }
      const { client } = await openAdmin(context, options)
      await withInterrupts(context.host, async signal => {
        const asked = client.open({ ...call, accept: '*/*', answerLimitMs, signal })
        await print(await asked.catch(inWordsOfServer), context)
      })
    }
  })
} satisfies Family

/** Returns the method and the path of a request. The path stays below the API, whatever it contains. */
function requestOf({ method, path }: { method: string; path: string }): Pick<Call, 'path'> & { method: Method } {
  const found = methods.find(each => each === method.toUpperCase())
  if (found === undefined) throw usage(method, `Unknown method "${method}": choose one of ${methods.join(', ')}`)
  const isBelow = /^\/api\/[^\s#\\]*$/.test(path) && new URL(path, 'http://svc').pathname.startsWith('/api/')
  if (!isBelow) throw usage(path, `The path "${path}" is not one of the API: it must be like /api/projects`)
  return { method: found, path }
}

type Method = (typeof methods)[number]

/** Returns the JSON to send, if any. */
async function bodyOf({ host }: Context, method: string, data: string | undefined): Promise<Pick<Call, 'json'>> {
  if (data === undefined) return {}
  if (method.toUpperCase() === 'GET')
    throw usage('--data', 'A GET has no body: leave --data out, or use another method')
  const text = data === '-' ? await readInput(host.stdin, { maxBytes: maxDataBytes, what: 'a body' }) : data
  const json = parseJson(text)
  if (json === undefined) throw usage('--data', '--data is not JSON: use a value like {"name": "shop"}')
  return { json }
}

/** Throws the refusal of the server without its field, which is no option of this command. */
function inWordsOfServer(error: unknown): never {
  if (!(error instanceof Refusal) || error.kind === 'usage') throw error
  throw new Refusal(error.kind, error.code, error.message, { cause: error })
}

async function print(answer: Answer, { host, output }: Context): Promise<void> {
  try {
    const isJson = (answer.headers['content-type'] ?? '').startsWith('application/json')
    if (isJson && host.stdout.isTTY) {
      const text = await readText(answer, maxShownBytes)
      output.print(JSON.stringify(parseJson(text), null, 2) ?? text)
    } else for await (const bytes of answer as AsyncIterable<Buffer>) await output.write(bytes)
  } catch (error) {
    throw isBroken(error) ? streamBroken() : error
  }
}
