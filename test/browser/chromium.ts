import { chromium } from 'playwright-core'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { findProgram } from '../support/programs.js'
import { openShared } from '../support/shared-in-process.js'

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']

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

/** The machine's own browser on the PATH; undefined: none. */
export const findChromium = (): string | undefined => findProgram(...names) ?? undefined

/** How long a test waits for what must come: on a machine that is busy with other things, too. */
export const patienceMs = 60_000

/** A browser with an empty profile of its own. */
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

/** What a page did that nobody asked for, and what it fetched. */
export interface Watch {
  /** Errors and warnings of its console, uncaught errors. */
  complaints: string[]
  /** Requests to anywhere but the server. */
  foreign: string[]
  /** Finished requests since the last reset, with their bytes on the wire, headers included. */
  fetched: Array<{ url: string; bytes: number }>
  reset(): void
}

/** A page in a context of its own, watched from its first request on. */
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
