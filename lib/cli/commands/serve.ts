import { Refusal } from '../../base/errors.js'
import { type Home, locateHome } from '../../base/config/home.js'
import {
  choice,
  type Context,
  defineCommand,
  exitCodes,
  type Family,
  option,
  toggle,
  usage,
  wordsOf
} from '../command.js'
import {
  openReadiness,
  untilStopped,
  whereTokenShows,
  allowSystemPathsOption,
  requireSignaturesOption,
  logFormatOption,
  hubOptions,
  type HubWords,
  listeningOf,
  listeningOptions
} from '../service/running.js'

/** The command that runs the server. */
export const commands = {
  serve: defineCommand({
    operands: { action: { help: '"stop" (only with --pm2): stop the server that runs under pm2' } },
    options: {
      ...listeningOptions,
      base: option('prefix', 'path prefix of all addresses; a, /a and /a/ are the same', { default: '' }),
      runtime: choice(['auto', 'node', 'bun'], 'runtime of the server; auto: the runtime of this command', {
        default: 'auto'
      }),
      'log-format': logFormatOption,
      'log-requests': toggle('print a line for each request: client, request, status, milliseconds'),
      'ready-file': option(
        'file',
        'file to write the address to when the server is ready; removed when the server stops'
      ),
      terminal: toggle('turn the terminal off, whatever the settings say', { default: true }),
      'allow-system-paths': allowSystemPathsOption,
      'require-signatures': requireSignaturesOption,
      ...hubOptions,
      pm2: toggle('run the server under pm2 as svc-server, and replace a running one')
    },
    details:
      'Ctrl-C or SIGTERM stops the server after running deployments have finished; a second one stops them, too.\n' +
      'SIGHUP reloads ADMIN_TOKEN and the certificate. It never stops the server, so you can close its terminal.\n\n' +
      'SVC_HOME sets the data directory. ADMIN_TOKEN (also in .env.local) overrides the stored admin token.\n' +
      'SVC_PUBLIC_URL sets the public address of the server, for links in notifications and for commands to copy.\n\n' +
      'The server notifies systemd when it is ready, reloads and stops; "svc systemd" prints a unit.',
    examples: [
      ['serve', 'listen on 127.0.0.1:5431'],
      ['serve --host 0.0.0.0 --port 8080 --base /deploy', 'serve other machines, below /deploy'],
      ['serve --host 0.0.0.0 --tls-cert fullchain.pem --tls-key privkey.pem', 'serve HTTPS without a proxy'],
      ['serve --socket /run/svc/svc.sock', 'listen on a Unix socket for a proxy on this machine'],
      [
        'serve --pm2',
        'run under pm2, which restarts the server after a failure; its files are in pm2/ of the data directory'
      ],
      ['serve --pm2 stop', 'stop the server that runs under pm2']
    ],
    async run({ options, operands: { action } }, context) {
      const { host, env, cwd, output } = context
      if (action !== undefined && !(options.pm2 && action === 'stop'))
        throw usage(action, `Unexpected argument "${action}": only "stop" is accepted, with --pm2`)
      const listening = listeningOf(options, cwd)
      if (options.pm2) {
        const { startSupervised, stopSupervised } = await import('../service/supervision.js')
        return action === 'stop'
          ? stopSupervised(context)
          : startSupervised(asWords({ ...options, pm2: false }), context)
      }
      if (options.runtime === 'bun' || options.runtime === 'node') {
        const { currentRuntime, runWith } = await import('../service/supervision.js')
        const words = ['serve', ...asWords({ ...options, runtime: 'auto' })]
        if (options.runtime !== currentRuntime) return runWith(options.runtime, words, host)
      }
      // Starts early: SQLite compiles while all the other modules are read (test/bench/start).
      const sqlite = import('../../core/store/memory.js').then(({ loadSqlite }) => loadSqlite())
      sqlite.catch(() => {}) // the caller that awaits it reports the error
      const isJson = options['log-format'] === 'json'
      if (isJson) output.logAsJson()
      const readiness = await openReadiness(options['ready-file'], context)
      const home = locateHome(env, cwd)
      refuseHubWords(options)
      const cluster = options.store === undefined ? undefined : await hubOf(options, { home, env, cwd })
      const { serve } = await import('../../server/serve.js')
      const waiting = new AbortController()
      const starting = serve({
        sqlite,
        signal: waiting.signal,
        home,
        cluster,
        ...listening,
        base: options.base,
        terminal: options.terminal,
        allowSystemPaths: options['allow-system-paths'],
        requireSignatures: options['require-signatures'],
        environment: env,
        cwd,
        report: { info: output.print, warn: output.warn },
        requests: options['log-requests'],
        showsToken: whereTokenShows(isJson, host)
      })
      await untilStopped(starting, readiness, { host, note: output.note, waiting })
      // The channel of pm2 would keep the process alive until pm2 kills it.
      if (env['SVC_SUPERVISED']) host.exit(exitCodes.success)
      return exitCodes.success
    }
  })
} satisfies Family

/** Refuses what only a hub needs, if the server is to be none. */
function refuseHubWords({ store, ...words }: Record<keyof HubWords, unknown>): void {
  const flags = Object.keys(hubOptions) as Array<keyof HubWords>
  const flag = flags.find(each => each !== 'store' && words[each] !== undefined && words[each] !== false)
  if (store === undefined && flag !== undefined)
    throw usage(`--${flag}`, `--${flag} needs --store: without it, the server is no hub of a cluster`)
}

/** Returns the cluster that this server is a hub of. Refuses `no_cluster` if the data directory is not that of a hub. */
async function hubOf(words: HubWords, { home, env, cwd }: { home: Home } & Pick<Context, 'env' | 'cwd'>) {
  const [{ clusterFileOf, clusterOptionsOf }, { readClusterFile }] = await Promise.all([
    import('../service/cluster-options.js'),
    import('../../base/config/cluster-file.js')
  ])
  const known = await readClusterFile(home.directory)
  if (known === null) {
    const sentence = `"${home.directory}" is not a hub of a cluster yet. Use "svc cluster init" for the first hub, and "svc cluster join" for the others`
    throw new Refusal('not_found', 'no_cluster', sentence)
  }
  return clusterOptionsOf(clusterFileOf(words, { known, cwd }), { home, env })
}

/** Returns the same options as words, for another process. */
function asWords(options: Record<string, unknown>): string[] {
  return wordsOf(commands.serve.options, options)
}
