/* charts.js - a chart with a title and the latest values beside it; drawn by dygraphs. */
import {element, setText} from '/web/common.js';

/* global Dygraph */

/* The legend of dygraphs needs inline styles, which the content security policy forbids. The
   caption replaces it. */
Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => plugin !== Dygraph.Plugins.Legend);

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class Chart {
    /**
     * @series  names, in the order of the values
     * @format  formats a value
     */
    constructor({title, series, format, stacked = false, filled = true, id}) {
        this.format = format;
        this.stacked = stacked;
        this.filled = filled;
        this.title = title;
        this.values = [];
        this.caption = element('figcaption', {}, element('h3', {}, title));
        this.plot = element('div', {class: 'plot', role: 'img', 'aria-label': title});
        this.element = element('figure', {class: 'card chart', 'data-chart': id}, this.caption, this.plot);
        this.setSeries(series);
    }

    setSeries(series) {
        if (this.series && this.series.join('\n') === series.join('\n'))
            return;
        this.series = series;
        for (const each of this.values)
            each.parentElement.remove();
        this.values = series.map((name, i) => {
            const value = element('b', {}, '–');
            this.caption.append(element('span', {class: `series s${i + 1}`}, name, ' ', value));
            return value;
        });
        this.graph?.destroy();
        this.graph = null;
    }

    options() {
        return {
            labels: ['time', ...this.series],
            colors: this.series.map((_, i) => colour(`--series-${i + 1}`)),
            axisLineColor: colour('--line'),
            gridLineColor: colour('--line'),
        };
    }

    /** Draw rows of [Date, value...]; null: unknown. */
    draw(rows, from, to) {
        if (this.series.length === 0 || rows.length === 0)
            return;
        if (!this.graph) {
            this.graph = new Dygraph(this.plot, rows, {
                ...this.options(), stackedGraph: this.stacked, fillGraph: this.filled,
                fillAlpha: 0.14, strokeWidth: 1.75, axisLabelFontSize: 12, includeZero: true,
                interactionModel: {}, highlightCircleSize: 3, rightGap: 4,
                axes: {
                    x: {pixelsPerLabel: 70, drawGrid: false, axisLabelWidth: 60},
                    y: {axisLabelFormatter: (value) => this.format(value), axisLabelWidth: 54, pixelsPerLabel: 28},
                },
                highlightCallback: (event, x, points) => this.point(points),
                unhighlightCallback: () => this.point([]),
            });
        }
        this.graph.updateOptions({file: rows, dateWindow: [from, to]});
        this.latest = rows[rows.length - 1].slice(1);
        if (!this.isPointed)
            this.showValues(this.latest);
        this.plot.setAttribute('aria-label', `${this.title}: ${this.series.map((name, i) =>
            `${name} ${this.formatValue(this.latest[i])}`).join(', ')}`);
    }

    /* Shows the values of the points under the pointer. If there are none, shows the latest
       values. */
    point(points) {
        this.isPointed = points.length > 0;
        if (!this.isPointed) {
            this.showValues(this.latest);
            return;
        }
        const values = new Map(points.map((each) => [each.name, each.yval]));
        this.showValues(this.series.map((name) => values.get(name)));
    }

    formatValue(value) {
        return value === null || value === undefined || Number.isNaN(value) ? '–' : this.format(value);
    }

    showValues(values) {
        this.values.forEach((target, i) => setText(target, this.formatValue(values[i])));
    }

    /** Draw again with the current colours of the page. */
    repaint() {
        this.graph?.updateOptions(this.options());
    }
}
