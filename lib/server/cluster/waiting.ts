import { Refusal } from '../../base/errors.js'
import { HttpServer, type ServerOptions } from '../../http/core/server.js'
import type { Reporter } from '../reporter.js'
import type { Entrance } from '../entrance.js'

/** What a hub says while it waits for its cluster. */
export interface Waiting {
  /** Reports why the hub waits. From then on every request is answered: 503 `not_leader`. */
  tell(sentence: string): void
  /** Stops answering, so that the hub itself can listen. */
  end(): Promise<void>
}

interface WaitingNeeds {
  entrance: Pick<Entrance, 'open' | 'secure'>
  base: string
  report: Pick<Reporter, 'info'>
}

const retryAfterSeconds = 5

/**
 * Creates the answers of a hub whose database is not open yet, for example because its cluster has the schema of an older
 * version. Nothing listens before the first `tell`.
 */
export function createWaiting({ entrance, base, report }: WaitingNeeds): Waiting {
  let hasEnded = false
  let opening: Promise<unknown> | undefined

  function refuse(): never {
    // The reason names hubs and members of etcd, which not every client may know.
    const sentence = 'This hub waits for its cluster and answers nothing yet. Its log says why. Ask another hub'
    throw new Refusal('unavailable', 'not_leader', sentence, { retryAfterSeconds })
  }

  const options: ServerOptions<string, unknown> = {
    routes: [],
    base,
    authorize: refuse,
    trustedProxies: () => [],
    // It is asked first for every request, whatever its path is.
    allowedHosts: refuse,
    log() {},
    ...entrance.secure
  }
  let http: HttpServer | undefined

  return {
    tell(sentence) {
      if (hasEnded) return
      report.info(sentence)
      http ??= new HttpServer(options)
      // A failure to listen is refused when the hub itself listens.
      opening ??= entrance.open(http).catch(() => {})
    },
    async end() {
      hasEnded = true
      await opening
      await http?.close({ graceMs: 0 })
    }
  }
}
