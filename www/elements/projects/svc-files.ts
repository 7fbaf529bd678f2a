import { said, type Said } from '../events.js'
import type { FileEntry } from '../../../lib/model/manifest.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import type { ProjectCalls } from '../../server/project-calls.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { createResource, loaded, type Resource } from '../../state/resource.js'
import { countWords, t } from '../../words/t.js'
import { fileAddress } from './file-address.js'
import { stepsOf } from '../base/places.js'
import { SvcCode } from '../base/svc-code.js'
import { SvcFile } from './svc-file.js'
import { SvcRows } from '../base/svc-rows.js'
import { SvcTree } from '../base/svc-tree.js'
import { createTree, type DirectoryTree } from '../base/tree-rows.js'
import { formatBytes } from '../../shared/size.js'

/** What a path refers to. */
type Seen = { kind: 'directory'; entries: FileEntry[] } | { kind: 'file'; entry: FileEntry }

/** Maximum number of listed entries (§4.4 as decided); there can be more. */
const maxListed = 10_000

/**
 * The contents of a project's target: a tree of its directories, and the directory or file that `path` names.
 * Properties: `project`, `calls`; `path`, relative, empty for the target itself. Events: `filego`, `notice`.
 */
export class SvcFiles extends SvcElement {
  static override sheet = css`
    svc-files {
      display: grid;
      grid-template-columns: 240px minmax(0, 1fr);
      gap: 24px;
      align-items: start;

      > aside { position: sticky; top: 16px; max-height: calc(100dvh - 32px); overflow-y: auto; }
      > div { display: grid; grid-template-columns: minmax(0, 1fr); gap: 12px; }
      .way { display: flex; flex-wrap: wrap; align-items: center; gap: 4px; min-height: 32px; font-family: var(--mono); font-size: var(--size-13); }
      .way li { display: flex; align-items: center; gap: 4px; max-width: 100%; min-width: 0; }
      .way .icon { width: 12px; height: 12px; color: var(--muted); }
      .way [aria-current] { font-weight: 600; overflow-wrap: anywhere; }
      svc-rows { --row-px: 37px; }
      .row {
        position: relative;
        display: grid;
        grid-template-columns: 16px minmax(0, 1fr) 90px 140px;
        align-items: center;
        gap: 12px;
        height: 100%;
        padding: 0 16px;
      }
      li + li .row { border-top: 1px solid var(--line); }
      .row:hover { background: var(--hover); }
      .row a { color: inherit; }
      .row a:hover { text-decoration: none; }
      .row a::after { content: ''; position: absolute; inset: 0; }
      .row a:focus-visible { outline-color: transparent; }
      .row a:focus-visible::after { outline: 2px solid var(--accent); outline-offset: -2px; border-radius: 6px; }
      .row .icon, .row .number, .row svc-time { color: var(--muted); }
      .row .number, .row svc-time { font-size: var(--size-13); text-align: right; }
      .note { padding: 10px 16px; border-top: 1px solid var(--line); color: var(--muted); font-size: var(--size-13); }
      @media (max-width: 959px) {
        grid-template-columns: minmax(0, 1fr);
        > aside { display: none; }
      }
      @media (max-width: 719px) {
        svc-rows { --row-px: 49px; }
        .row { grid-template-columns: 16px minmax(0, 1fr) auto; gap: 10px; }
        .row svc-time { display: none; }
      }
    }
  `

  project!: Project
  calls!: ProjectCalls
  path = ''
  #tree!: DirectoryTree
  #asked = new Set<string>()
  #seen!: Resource<Seen>

  protected override changed(name: string): void {
    if (name === 'path') this.#look()
  }

  protected override connected(): void {
    this.#tree = createTree(this.project.name)
    this.#asked.clear()
    this.#look()
  }

  protected override view(): Template {
    return html`
      <aside>
        <svc-tree label="${t('Directories')}" .rows="${this.#tree.rows}" .selected="${this.#directory}"
          @treetoggle="${(event: Event) => this.#toggle(event as Said<'treetoggle'>)}"
          @treego="${(event: Event) => this.#go((event as Said<'treego'>).path)}"></svc-tree>
      </aside>
      <div>
        ${this.#way()}
        ${loaded(this.#seen, 'the files', seen =>
          seen.kind === 'file' ? this.#file(seen.entry) : this.#list(seen.entries)
        )}
      </div>`
  }

  /** The current directory, even while one of its files is open. */
  get #directory(): string {
    return this.#seen.value?.kind === 'file' ? parentOf(this.path) : this.path
  }

  #way(): Template {
    const below = stepsOf(`/${this.path}`, '/')
      .slice(1)
      .map(({ name, path }) => ({ name, path: path.slice(1) }))
    const steps = [{ name: this.project.name, path: '' }, ...below]
    return html`
      <nav aria-label="${t('Path')}">
        <ol class="way" translate="no">
          ${steps.map(
            ({ name, path }, index) => html`
            <li>
              ${index === 0 ? null : icon('next')}
              ${
                index === steps.length - 1
                  ? html`<span aria-current="location">${name}</span>`
                  : html`<a class="cut" href="${fileAddress(this.project.id, path)}">${name}</a>`
              }
            </li>`
          )}
        </ol>
      </nav>`
  }

  #list(entries: readonly FileEntry[]): Template {
    if (entries.length === 0) {
      return html`
        <div class="card state">
          <p class="muted">
            ${
              this.path === ''
                ? t('No files yet. The first deployment writes them here.')
                : t('This directory is empty.')
            }
          </p>
        </div>`
    }
    const files = entries.filter(({ isDir }) => !isDir)
    const bytes = files.reduce((sum, { size }) => sum + size, 0)
    const facts = [
      files.length < entries.length ? countWords(entries.length - files.length, 'folder') : '',
      files.length > 0 ? `${countWords(files.length, 'file')}, ${formatBytes(bytes)}` : ''
    ]
      .filter(Boolean)
      .join(' · ')
    return html`
      <div class="card">
        <svc-rows label="${t('Files')}" .key="${pathOf}" .items="${entries}" .row="${this.#row}"></svc-rows>
        <p class="note number">
          ${facts} ${entries.length < maxListed ? null : t('The list may be incomplete.')}
        </p>
      </div>`
  }

  #row = (entry: FileEntry, { isCurrent }: { isCurrent: boolean }): Template => html`
    <div class="row">
      ${icon(entry.isDir ? 'folder' : 'file')}
      <a class="cut" href="${fileAddress(this.project.id, entry.path)}" tabindex="${isCurrent ? null : '-1'}"
        title="${entry.name}">
        <span translate="no">${entry.name}</span>${entry.isDir ? html`<span class="unseen">${t('folder')}</span>` : null}
      </a>
      <span class="number">${entry.isDir ? null : formatBytes(entry.size)}</span>
      <svc-time at="${entry.mtime}"></svc-time>
    </div>`

  #file(entry: FileEntry): Template {
    return html`<svc-file .entry="${entry}" .projectId="${this.project.id}" .calls="${this.calls}"></svc-file>`
  }

  #go(path: string): void {
    this.dispatchEvent(said('filego', { path }))
  }

  #toggle({ path, isOpen }: Said<'treetoggle'>): void {
    this.#tree.setOpen(path, isOpen)
    this.#fill()
    this.update()
  }

  #look(): void {
    const path = this.path
    this.#seen = createResource<Seen>({
      load: signal => this.#see(path, signal),
      onChange: () => {
        if (path === this.path) this.update()
      },
      signal: this.signal
    })
    void this.#seen.load()
    this.#tree.reveal(path)
    this.#fill()
    this.update()
  }

  /** Finds out what a path is from the listing of its parent. Requesting it as the wrong type would be an error. */
  async #see(path: string, signal: AbortSignal): Promise<Seen> {
    if (path !== '') {
      const above = await this.#entries(parentOf(path), signal)
      const entry = above.find(each => each.path === path)
      if (entry !== undefined && !entry.isDir) return { kind: 'file', entry }
    }
    const entries = await this.#entries(path, signal)
    this.#tree.setOpen(path, true)
    return { kind: 'directory', entries }
  }

  async #entries(path: string, signal: AbortSignal): Promise<FileEntry[]> {
    const entries = await this.calls.files(this.project.id, path, signal)
    this.#tree.fill(
      path,
      entries.filter(({ isDir }) => isDir).map(({ name }) => name)
    )
    return entries
  }

  /** Loads the directories that the tree shows. A failure is reported when the directory is opened. */
  #fill(): void {
    for (const path of this.#tree.wanted) {
      if (this.#asked.has(path)) continue
      this.#asked.add(path)
      this.#entries(path, this.signal).then(
        () => this.update(),
        () => this.#asked.delete(path)
      )
    }
  }
}

const pathOf = ({ path }: FileEntry): string => path
const parentOf = (path: string): string => path.split('/').slice(0, -1).join('/')

/** The elements that a page registers for the files of a project. */
export const elements = {
  'svc-files': SvcFiles,
  'svc-file': SvcFile,
  'svc-code': SvcCode,
  'svc-rows': SvcRows,
  'svc-tree': SvcTree
}
