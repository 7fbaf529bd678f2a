import { resolve } from 'node:path'
import type { RunningServer, ShowsToken } from '../../main/serve.js'
import { locateHome } from '../../config/home.js'
import { defineCommand, exitCodes, type Context, type Host } from '../command.js'
import { usage, wordsOf } from '../args.js'
import { listeningOf, listeningOptions } from '../listening.js'
import type { Readiness } from '../readiness.js'

export const command = defineCommand({
  operands: {
    action: { help: 'only with --pm2: "stop" ends the server that runs there' }
  },
  options: {
    ...listeningOptions,
    base: {
      type: 'text',
      value: 'prefix',
      default: '',
      help: 'the path everything lives under: a, /a and /a/ are the same'
    },
    runtime: {
      type: 'text',
      choices: ['auto', 'node', 'bun'],
      default: 'auto',
      help: 'what runs the server; auto: what runs this command'
    },
    'log-format': {
      type: 'text',
      choices: ['text', 'json'],
      default: 'text',
      help: 'json: each line the server prints is an object with time, level and message; never the admin token'
    },
    'log-requests': { type: 'switch', help: 'a line for each request: from where, what, status, milliseconds' },
    'ready-file': {
      type: 'text',
      value: 'file',
      help: 'written, with the address, when everything is answered; removed when the server stops'
    },
    terminal: { type: 'switch', default: true, help: 'offer no terminal, whatever the settings say' },
    'allow-system-paths': {
      type: 'switch',
      help: 'let projects deploy into places of the system, such as /etc or a .ssh directory (docs/security.md)'
    },
    pm2: { type: 'switch', help: 'run it under pm2, as svc-server, in place of one that runs there' }
  },
  details:
    'Ctrl-C, or SIGTERM, waits for running deployments; a second one stops them. SIGHUP reads ADMIN_TOKEN and the\n' +
    'certificate again, and never ends the server, so that closing its terminal does not either. SVC_HOME chooses the\n' +
    'data directory, ADMIN_TOKEN (also in .env.local) another admin token than the one kept there, SVC_PUBLIC_URL the\n' +
    'address under which people reach the server, for links in notifications and commands to copy. Under systemd ("svc\n' +
    'systemd" writes the unit) it is told when the server is ready, reloads and stops.',
  examples: [
    ['serve', 'listen on 127.0.0.1:5431'],
    ['serve --host 0.0.0.0 --port 8080 --base /deploy', 'for other machines, below /deploy'],
    ['serve --host 0.0.0.0 --tls-cert fullchain.pem --tls-key privkey.pem', 'HTTPS without a proxy'],
    ['serve --socket /run/svc/svc.sock', 'for a proxy on this machine, reached through a file'],
    ['serve --pm2', 'run under pm2, which starts it again when it fails; its files are in pm2/ of the data directory'],
    ['serve --pm2 stop', 'end that']
  ],
  async run({ options, operands: { action } }, context) {
    const { host, env, cwd, output } = context
    if (action !== undefined && !(options.pm2 && action === 'stop')) {
      throw usage(action, `unexpected word "${action}": the only one is "stop", after --pm2`)
    }
    const listening = listeningOf(options, cwd)
    if (options.pm2) {
      const { startSupervised, stopSupervised } = await import('../supervision.js')
      return action === 'stop' ? stopSupervised(context) : startSupervised(asWords({ ...options, pm2: false }), context)
    }
    if (options.runtime === 'bun' || options.runtime === 'node') {
      const { currentRuntime, runWith } = await import('../runtime.js')
      const words = ['serve', ...asWords({ ...options, runtime: 'auto' })]
      if (options.runtime !== currentRuntime) return runWith(options.runtime, words, host)
    }
    // It compiles while the files of all the other modules are read (test/bench/start).
    const sqlite = import('../../store/sqlite.js').then(({ loadSqlite }) => loadSqlite())
    sqlite.catch(() => {}) // told by whoever waits for it
    const isJson = options['log-format'] === 'json'
    if (isJson) output.logAsJson()
    const readiness = await openReadiness(options['ready-file'], context)
    const { serve } = await import('../../main/serve.js')
    const starting = serve({
      sqlite,
      home: locateHome(env, cwd),
      ...listening,
      base: options.base,
      terminal: options.terminal,
      allowSystemPaths: options['allow-system-paths'],
      environment: env,
      cwd,
      report: { info: output.print, warn: output.warn },
      requests: options['log-requests'],
      showsToken: await whereTokenShows(isJson, host)
    })
    await untilStopped(starting, readiness, { host, note: output.note })
    // pm2's channel to the process would keep it alive until pm2 kills it.
    if (env['SVC_SUPERVISED']) host.exit(exitCodes.success)
    return exitCodes.success
  }
})

/** The same options, for another process. */
function asWords(options: Record<string, unknown>): string[] {
  return wordsOf(command.options, options)
}

/** Of a file or a pipe nobody knows who reads it later, but somebody must learn a token that is new. */
async function whereTokenShows(isJson: boolean, { env, stdout }: Host): Promise<ShowsToken> {
  // Who started it under pm2 was told the token.
  if (isJson || env['SVC_SUPERVISED'] || (await printsToJournal(env))) return 'never'
  return stdout.isTTY ? 'always' : 'new'
}

async function printsToJournal(env: Host['env']): Promise<boolean> {
  return Boolean(env['JOURNAL_STREAM']) && (await import('../journal.js')).printsToJournal(env)
}

/** Loaded only where somebody waits to be told. */
async function openReadiness(readyFile: string | undefined, context: Context): Promise<Readiness | undefined> {
  if (readyFile === undefined && !context.env['NOTIFY_SOCKET']) return undefined
  const { createReadiness } = await import('../readiness.js')
  return createReadiness(readyFile === undefined ? undefined : resolve(context.cwd, readyFile), context)
}

/** The first signal waits for what runs, the second does not; a start that has begun is brought to its end. */
async function untilStopped(
  starting: Promise<RunningServer>, readiness: Readiness | undefined, { host, note }: { host: Host; note(text: string): void }
): Promise<void> {
  await new Promise<void>((done, reject) => {
    let asked = 0
    const stop = () => {
      const wait = ++asked === 1
      if (wait) note('Stopping: running deployments may finish, once more stops them')
      const told = wait ? readiness?.stopping() : undefined
      starting.then(server => Promise.all([server.stop({ wait }), told])).then(() => done(), reject)
    }
    const reload = async (server: RunningServer) => {
      if (asked > 0) return
      await readiness?.reloading()
      await server.reload()
      await readiness?.ready(server.url)
    }
    starting.then(server => readiness?.ready(server.url)).catch(reject)
    host.on('SIGINT', stop)
    host.on('SIGTERM', stop)
    // Without a listener it ends the server, under `nohup` too: Node undoes what that has set.
    host.on('SIGHUP', () => void starting.then(reload).catch(() => {}))
  })
}
