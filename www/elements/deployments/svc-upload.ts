import { said } from '../events.js'
import { foundInDrop, foundInFiles } from '../../archive/gather.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { errorLine } from '../base/field.js'
import { formatBytes } from '../../shared/size.js'

/** The progress of packing or sending. */
export interface Progress {
  stage: 'packing' | 'sending'
  name: string
  doneBytes: number
  totalBytes: number
}

const isZip = ({ name }: { name: string }): boolean => /\.zip$/i.test(name)

/**
 * A place to drop or choose a zip, files or folders. Properties: `progress`, of the current upload, or null; `problem`,
 * a sentence, or null; `prunes`, whether files that are not in the archive are removed. Events: `filechosen` for one zip, `found` for anything else, `uploadcancel`.
 */
export class SvcUpload extends SvcElement {
  static override sheet = css`
    svc-upload {
      display: block;

      .zone, .sending {
        display: grid;
        align-content: center;
        justify-items: center;
        gap: 8px;
        min-height: 148px;
        padding: 20px;
        border: 1px dashed var(--edge);
        border-radius: var(--radius);
        text-align: center;
      }

      .zone > .icon { width: 20px; height: 20px; color: var(--muted); }
      .zone b { font-weight: 500; }
      .zone label { position: relative; min-height: 32px; padding-block: 2px; }
      .zone label:has(:focus-visible) { outline: 2px solid var(--accent); outline-offset: 2px; }
      &.over .zone { border-color: var(--accent); border-style: solid; background: var(--accent-quiet); }
      .sending { border-style: solid; border-color: var(--line); gap: 10px; }
      .sending p { max-width: 100%; }
      progress { width: min(320px, 100%); height: 6px; accent-color: var(--accent); }
      .error-line { margin-top: 8px; }
    }
  `

  progress: Progress | null = null
  problem: string | null = null
  prunes = false

  protected override connected(): void {
    this.listen(this, 'dragover', event => {
      event.preventDefault()
      this.classList.add('over')
    })
    this.listen(this, 'dragleave', event => {
      const to = (event as DragEvent).relatedTarget
      if (!(to instanceof Node && this.contains(to))) this.classList.remove('over')
    })
    this.listen(this, 'drop', event => {
      event.preventDefault()
      this.classList.remove('over')
      if (this.progress === null) this.#dropped((event as DragEvent).dataTransfer)
    })
  }

  protected override view(): Template {
    return html`
      ${this.progress === null ? this.#zone() : this.#sending(this.progress)}
      ${errorLine(this.problem)}`
  }

  #zone(): Template {
    const choose = (event: Event): void => {
      const input = event.currentTarget as HTMLInputElement
      const files = [...(input.files ?? [])]
      // Allows to choose the same file again after it was fixed.
      input.value = ''
      this.#chosen(files)
    }
    return html`
      <div class="zone">
        ${icon('deployments')}
        <b>${t('Drop a zip, files or a folder here')}</b>
        <div class="actions">
          <label class="button">
            ${icon('file')}${t('Choose files')}<input type="file" multiple="" class="unseen" @change="${choose}">
          </label>
          <label class="button">
            ${icon('folder')}${t('Choose a folder')}<input type="file" webkitdirectory="" class="unseen" @change="${choose}">
          </label>
        </div>
        <span class="muted small">${this.prunes ? t('Files of earlier deployments that it does not contain are removed.') : t('Files with the same name are replaced; other files stay.')}</span>
      </div>`
  }

  #sending({ stage, name, doneBytes, totalBytes }: Progress): Template {
    const isSent = stage === 'sending' && totalBytes > 0 && doneBytes >= totalBytes
    const verb = isSent ? t('Deploying') : stage === 'packing' ? t('Packing') : t('Uploading')
    return html`
      <div class="sending">
        <p class="cut">${verb} <b translate="no">${name}</b></p>
        <progress aria-label="${verb}" max="${Math.max(1, totalBytes)}" .value="${doneBytes}"></progress>
        <p class="muted small number">${t('{done} of {total}', { done: formatBytes(doneBytes), total: formatBytes(totalBytes) })}</p>
        ${
          isSent
            ? null
            : html`
            <button type="button" @click="${() => this.dispatchEvent(said('uploadcancel'))}">${t('Cancel')}</button>`
        }
      </div>`
  }

  #dropped(transfer: DataTransfer | null): void {
    const [file, second] = transfer?.files ?? []
    const found = transfer === null ? [] : foundInDrop(transfer.items)
    // A folder named x.zip is also listed among the files.
    if (file !== undefined && second === undefined && found[0]?.kind === 'file' && isZip(file)) return this.#send(file)
    if (found.length > 0) this.dispatchEvent(said('found', { found }))
  }

  #chosen(files: File[]): void {
    const [file, second] = files
    if (file === undefined) return
    if (second === undefined && isZip(file) && file.webkitRelativePath === '') this.#send(file)
    else this.dispatchEvent(said('found', { found: foundInFiles(files) }))
  }

  #send(file: File): void {
    this.dispatchEvent(said('filechosen', { file }))
  }
}
