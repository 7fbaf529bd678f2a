import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core'
import { findProgram } from '../support/programs.js'
import { openShared } from '../support/shared-in-process.js'
import { defaultWithinMs } from '../support/until.js'

/** The first is half as expensive: the others draw the window around the page, although nobody sees it. */
const names = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']

/**
 * Options of Chromium: no screen, no sandbox (root in a container cannot use it), no requests besides those of the
 * page.
 */
const switches = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-dev-shm-usage',
  // Every page is of one server here: a process for each of them would be a start for nothing.
  '--disable-site-isolation-trials',
  '--renderer-process-limit=1'
]

/** The browser on the PATH; undefined if there is none. */
export const findChromium = (): string | undefined => findProgram(...names) ?? undefined

/** Time limit for what must appear, also on a busy machine. */
export const patienceMs = defaultWithinMs

/** Starts a browser with an empty profile. */
export function launchChromium(executablePath: string): Promise<Browser> {
  return chromium.launch({ executablePath, headless: true, args: switches })
}

/**
 * The browser of this process, for each of its test files; without one on the machine, `skip` says so and nothing may
 * use it.
 */
export async function startChromium(t: {
  teardown(work: () => unknown): void
}): Promise<{ browser: Browser; skip: string | false }> {
  const executable = findChromium()
  if (executable === undefined) return { browser: undefined as never, skip: 'no chromium or google-chrome on the PATH' }
  const open = (): Promise<Browser> => launchChromium(executable)
  const browser = await openShared(t, 'chromium', { open, close: browser => browser.close() })
  return { browser, skip: false }
}

/** Unexpected events of a page, and its requests. */
export interface Watch {
  /** Errors and warnings of the console, and uncaught errors. */
  complaints: string[]
  /** Requests to other servers. */
  foreign: string[]
  /** Number of finished requests since the last reset, and their bytes on the wire including headers. */
  fetched: Array<{ url: string; bytes: number }>
  reset(): void
}

/** Opens a page in its own context and watches it from the first request on. */
export async function openWatched(
  browser: Browser,
  origin: string,
  options: Parameters<Browser['newContext']>[0]
): Promise<{ context: BrowserContext; page: Page; watch: Watch }> {
  const context = await browser.newContext(options)
  const page = await context.newPage()
  const watch: Watch = {
    complaints: [],
    foreign: [],
    fetched: [],
    reset() {
      this.fetched = []
    }
  }
  page.setDefaultTimeout(patienceMs)
  page.on('console', message => {
    if (!['error', 'warning'].includes(message.type())) return
    watch.complaints.push(`${message.text()} ${message.location().url}`)
  })
  page.on('pageerror', error => watch.complaints.push(String(error.stack)))
  page.on('request', request => {
    const url = new URL(request.url())
    if (url.origin !== origin && !['data:', 'blob:'].includes(url.protocol)) watch.foreign.push(request.url())
  })
  const wire = await context.newCDPSession(page)
  const urls = new Map<string, string>()
  wire.on('Network.requestWillBeSent', ({ requestId, request }) => urls.set(requestId, request.url))
  wire.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
    watch.fetched.push({ url: urls.get(requestId) ?? '', bytes: encodedDataLength })
  })
  await wire.send('Network.enable')
  return { context, page, watch }
}
